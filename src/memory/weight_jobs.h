// Work on weights that have been read, before the model runs: shared by the pool's workers, with
// progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/function_ref.h"
#include "base/progress.h"
#include "cpu/pool.h"

namespace penstock {

// Calls body(i) for each job, of sizes[i] bytes: by the pool's workers, or by the caller alone
// where it is null.
void run_weight_jobs(Pool* pool, const ProgressFn& progress, std::string_view stage,
                     std::span<const uint64_t> sizes, FunctionRef<void(size_t i)> body);

}  // namespace penstock
