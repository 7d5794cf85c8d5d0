#include "kernels/attention/exp2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock {
namespace {

TEST(Exp2Fast, IsWithin18BitsOfTheTruth) {
  double worst = 0;
  for (float x = -126.0F; x <= 0; x += 0x1p-12F) {
    const double truth = std::exp2(double{x});
    worst = std::max(worst, std::abs(exp2_fast(x) - truth) / truth);
  }
  EXPECT_LT(worst, 0x1p-18);
}

TEST(Exp2Fast, PowersOfTwoAreExact) {
  for (int n = -126; n <= 0; ++n) EXPECT_EQ(exp2_fast(static_cast<float>(n)), std::ldexp(1.0F, n));
  EXPECT_EQ(exp2_fast(-0.0F), 1.0F);
}

TEST(Exp2Fast, WhatWouldBeSubnormalIsZero) {
  for (const float x : {-126.01F, -1000.0F, std::numeric_limits<float>::lowest(),
                        -std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(exp2_fast(x), 0.0F) << x;
  }
}

}  // namespace
}  // namespace penstock
