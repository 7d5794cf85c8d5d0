// Shares rows among a pool's workers, where there are enough to be worth waking them.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "cpu/pool.h"
#include "tensor/rows.h"

namespace penstock {

// Chunks that a worker takes, so that none waits long for the last.
inline constexpr int64_t kChunksPerWorker = 4;

// What a row is taken for, as a multiple of the numbers in it.
inline constexpr int64_t kPlainPass = 1;   // sums, products, norms
inline constexpr int64_t kConversion = 4;  // to other formats and back, exponentials
inline constexpr int64_t kRotation = 8;    // with scattered stores behind it
inline constexpr int64_t kSelection = 32;  // of the largest
inline constexpr int64_t kSineCosine = 64;

// Calls body for ranges that cover [0, n_rows): on this thread when they are too little work.
// row_work: of a row, as the numbers that a plain pass over memory would read in its time, about 5
// a nanosecond. A rough guess will do.
void share_rows(Pool& pool, int64_t n_rows, int64_t row_work, FunctionRef<void(Range)> body);

}  // namespace penstock
