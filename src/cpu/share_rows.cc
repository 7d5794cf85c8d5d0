#include "cpu/share_rows.h"

#include <algorithm>

namespace penstock {

void share_rows(Pool& pool, int64_t n_rows, FunctionRef<void(Range)> body) {
  // Below this a parallel region costs more than it saves (about a microsecond each way).
  constexpr int64_t kSerialRows = 4;
  if (n_rows < kSerialRows || pool.n_workers() == 1) {
    body({0, n_rows});
    return;
  }
  const int64_t chunk = std::max<int64_t>(1, n_rows / (pool.n_workers() * kChunksPerWorker));
  pool.parallel_for(n_rows, chunk, [&](Range range, int) { body(range); });
}

}  // namespace penstock
