#include "engine/prefill_cost.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(PrefillCost, FindsBothPartsFromChunksOfDifferentSizes) {
  PrefillCost cost;
  for (int i = 0; i < 20; ++i) {
    for (const int64_t n : {512, 16, 32}) cost.add(n, 0.008 + 0.0002 * static_cast<double>(n));
  }
  EXPECT_NEAR(cost.fixed_seconds(), 0.008, 1e-5);
  EXPECT_NEAR(cost.token_seconds(), 0.0002, 1e-6);
  EXPECT_NEAR(cost.seconds(100), 0.028, 1e-4);
}

TEST(PrefillCost, OneSizeAloneMovesThePartForTheChunk) {
  PrefillCost cost;
  for (int i = 0; i < 20; ++i) {
    for (const int64_t n : {16, 32}) cost.add(n, 0.008 + 0.0002 * static_cast<double>(n));
  }
  for (int i = 0; i < 40; ++i) cost.add(20, 0.014);
  EXPECT_NEAR(cost.seconds(20), 0.014, 1e-4);
  EXPECT_NEAR(cost.token_seconds(), 0.0002, 5e-5);
}

TEST(PrefillCost, TheFirstMeasurementIsAllForItsTokens) {
  PrefillCost cost;
  EXPECT_FALSE(cost.is_known());
  cost.add(100, 0.1);
  EXPECT_TRUE(cost.is_known());
  EXPECT_DOUBLE_EQ(cost.seconds(50), 0.05);
}

TEST(PrefillCost, NeitherPartIsEverNegative) {
  PrefillCost cost;
  for (int i = 0; i < 10; ++i) {
    cost.add(10, 0.2);  // the smaller chunk takes longer
    EXPECT_GE(cost.fixed_seconds(), 0.0);
    cost.add(20, 0.1);
    EXPECT_GE(cost.token_seconds(), 0.0);
    EXPECT_GE(cost.fixed_seconds(), 0.0);
  }
}

TEST(PrefillCost, OneSlowStepCountsAsTwiceTheExpected) {
  PrefillCost cost;
  for (int i = 0; i < 20; ++i) cost.add(i % 2 == 0 ? 16 : 12, 0.010);
  cost.add(16, 10.0);
  EXPECT_LT(cost.seconds(16), 0.018);
}

}  // namespace
}  // namespace penstock
