#include "cpu/share_rows.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace penstock {
namespace {

TEST(ShareRows, EveryRowOnce) {
  const auto pool = Pool::make({.n_threads = 2, .pin = false}).value();
  for (const int64_t n : {0, 1, 3, 4, 5, 100}) {
    for (const int64_t row_work : {1, 1 << 20}) {
      std::vector<int> visits(static_cast<size_t>(n), 0);
      share_rows(*pool, n, row_work, [&](Range range) {
        for (int64_t i = range.begin; i < range.end; ++i) ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(n), 1));
    }
  }
}

TEST(ShareRows, LittleWorkStaysOnThisThreadInOnePiece) {
  const Topology two_cores = read_topology("core:2 pu:1").value();
  const auto pool = Pool::make({.pin = false, .topology = two_cores}).value();
  ASSERT_EQ(pool->n_workers(), 2);
  std::vector<Range> ranges;
  share_rows(*pool, 8, 576, [&](Range range) { ranges.push_back(range); });
  EXPECT_EQ(ranges, (std::vector<Range>{{0, 8}}));
  std::atomic<int> n_ranges = 0;
  share_rows(*pool, 8, 1 << 20, [&](Range) { ++n_ranges; });
  EXPECT_EQ(n_ranges, 8);
}

}  // namespace
}  // namespace penstock
