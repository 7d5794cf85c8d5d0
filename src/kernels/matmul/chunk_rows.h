// How many rows of weights a worker takes at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/share_rows.h"

namespace penstock {

// Of total_rows, those of all matrices that are multiplied together: enough chunks that no worker
// waits long for the last, each a multiple of every kernel's panel height.
inline int64_t chunk_rows(int64_t total_rows, int n_workers) {
  constexpr int64_t kMultiple = 96;
  if (n_workers == 1) return total_rows;
  const int64_t even = total_rows / (n_workers * kChunksPerWorker);
  return std::max<int64_t>(1, even / kMultiple) * kMultiple;
}

}  // namespace penstock
