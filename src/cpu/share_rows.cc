#include "cpu/share_rows.h"

#include <algorithm>

namespace penstock {

void share_rows(Pool& pool, int64_t n_rows, int64_t row_work, FunctionRef<void(Range)> body) {
  // Below this a parallel region costs more than it saves: about a microsecond to begin and one to
  // end, and the rows, which come from another core's cache and go to another's. Eight rows of 576
  // numbers: RMSNorm takes 1 us on one thread and 3 on two, codes for the integer product 3 and 8
  // (Sapphire Rapids).
  constexpr int64_t kSerialWork = 16 * 1024;
  if (n_rows <= 1 || n_rows * row_work < kSerialWork || pool.n_workers() == 1) {
    body({0, n_rows});
    return;
  }
  const int64_t chunk = std::max<int64_t>(1, n_rows / (pool.n_workers() * kChunksPerWorker));
  pool.parallel_for_shares(n_rows, chunk, [&](Range range, int) { body(range); });
}

}  // namespace penstock
