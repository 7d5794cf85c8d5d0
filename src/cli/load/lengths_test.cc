#include "cli/load/lengths.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace penstock {
namespace {

std::vector<int64_t> draws(std::string_view text, int n) {
  const Lengths lengths = parse_lengths(text, "--x").value();
  Random random = random_for(/*seed=*/5, 0);
  std::vector<int64_t> all;
  for (int i = 0; i < n; ++i) all.push_back(lengths.draw(random));
  std::ranges::sort(all);
  return all;
}

TEST(Lengths, FixedIsFixed) { EXPECT_THAT(draws("128", 3), testing::Each(128)); }

TEST(Lengths, UniformHasBothEnds) {
  const auto all = draws("uniform:3-6", 4000);
  for (int64_t length = 3; length <= 6; ++length) {
    EXPECT_NEAR(static_cast<double>(std::ranges::count(all, length)), 1000,
                5 * std::sqrt(4000 * 0.1875))
        << length;
  }
  EXPECT_EQ(all.front(), 3);
  EXPECT_EQ(all.back(), 6);
}

TEST(Lengths, LognormalHasItsMedianAndSpread) {
  const int n = 10'000;
  const auto all = draws("lognormal:200,0.5", n);
  // A quantile's standard error is sqrt(q (1 - q) / n) / density: for the logarithm at the median
  // 0.0063, at one sigma 0.0075. Four of them.
  const auto log_at = [&](double q) {
    return std::log(static_cast<double>(all[static_cast<size_t>(q * n)]));
  };
  EXPECT_NEAR(log_at(0.5), std::log(200), 0.026);
  EXPECT_NEAR(log_at(0.8413), std::log(200) + 0.5, 0.031);
  EXPECT_NEAR(log_at(0.1587), std::log(200) - 0.5, 0.031);
}

TEST(Lengths, ExtremeDrawsStayWithinBounds) {
  const auto all = draws("lognormal:1000,10", 1000);
  EXPECT_GE(all.front(), 1);
  EXPECT_EQ(all.back(), Lengths::kLongest);
}

TEST(Lengths, WhatIsNoneIsRefused) {
  for (const char* text : {"",
                           "0",
                           "-1",
                           "12x",
                           "1048577",
                           "99999999999999999999",
                           "uniform",
                           "uniform:",
                           "uniform:3",
                           "uniform:6-3",
                           "uniform:0-3",
                           "uniform:3-6-9",
                           "lognormal:5",
                           "lognormal:5,",
                           "lognormal:5,-1",
                           "lognormal:5,nan",
                           "lognormal:5,inf",
                           "lognormal:0,1",
                           "zipf:3",
                           "128 "}) {
    const auto parsed = parse_lengths(text, "--prompt-tokens");
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(parsed.error().message,
                testing::StartsWith("--prompt-tokens: found \"" + std::string(text) + "\""));
  }
}

}  // namespace
}  // namespace penstock
