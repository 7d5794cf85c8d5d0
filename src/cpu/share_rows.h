// Shares rows among a pool's workers, where there are enough to be worth waking them.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "cpu/pool.h"
#include "tensor/rows.h"

namespace penstock {

// Chunks that a worker takes, so that none waits long for the last.
inline constexpr int64_t kChunksPerWorker = 4;

// Calls body for ranges that cover [0, n_rows): on this thread when there are too few rows.
void share_rows(Pool& pool, int64_t n_rows, FunctionRef<void(Range)> body);

}  // namespace penstock
