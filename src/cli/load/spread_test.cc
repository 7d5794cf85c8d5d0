#include "cli/load/spread.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Percentile, IsInterpolatedBetweenNeighbours) {
  // numpy.percentile([1, 2, 4, 8], [0, 25, 50, 90, 99, 100]), by its formula.
  const std::vector<double> values = {1, 2, 4, 8};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(values, 0.25), 1.75);  // place 0.75
  EXPECT_DOUBLE_EQ(percentile(values, 0.5), 3);      // place 1.5
  EXPECT_DOUBLE_EQ(percentile(values, 0.9), 6.8);    // place 2.7
  EXPECT_DOUBLE_EQ(percentile(values, 0.99), 7.88);  // place 2.97
  EXPECT_DOUBLE_EQ(percentile(values, 1), 8);
  EXPECT_DOUBLE_EQ(percentile(std::vector{5.0}, 0.99), 5);
}

TEST(Spread, OfValuesInAnyOrder) {
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);
  const Spread spread = spread_of(values);
  EXPECT_EQ(spread.n, 101u);
  EXPECT_DOUBLE_EQ(spread.mean, 50);
  EXPECT_DOUBLE_EQ(spread.p50, 50);
  EXPECT_DOUBLE_EQ(spread.p90, 90);
  EXPECT_DOUBLE_EQ(spread.p99, 99);
  EXPECT_DOUBLE_EQ(spread.max, 100);
  EXPECT_EQ(spread_of({}).n, 0u);
}

}  // namespace
}  // namespace penstock
