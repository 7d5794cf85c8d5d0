#include "cpu/share_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

TEST(ShareRows, EveryRowOnce) {
  const auto pool = Pool::make({.n_threads = 2, .pin = false}).value();
  for (const int64_t n : {0, 1, 3, 4, 5, 100}) {
    std::vector<int> visits(static_cast<size_t>(n), 0);
    share_rows(*pool, n, [&](Range range) {
      for (int64_t i = range.begin; i < range.end; ++i) ++visits[static_cast<size_t>(i)];
    });
    EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(n), 1));
  }
}

}  // namespace
}  // namespace penstock
