#include "cli/load/randomness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace penstock {
namespace {

constexpr int kDraws = 20'000;
// Kolmogorov and Smirnov: for n draws of the right distribution the greatest distance exceeds
// 1.95 / sqrt(n) once in a thousand seeds; ours are fixed.
const double kGreatestDistance = 1.95 / std::sqrt(kDraws);

// The greatest distance between the draws' own distribution function and `expected`.
double distance(const std::function<double()>& draw,
                const std::function<double(double)>& expected) {
  std::vector<double> draws;
  for (int i = 0; i < kDraws; ++i) draws.push_back(draw());
  std::ranges::sort(draws);
  double greatest = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = expected(draws[static_cast<size_t>(i)]);
    greatest = std::max({greatest, value - static_cast<double>(i) / kDraws,
                         static_cast<double>(i + 1) / kDraws - value});
  }
  return greatest;
}

TEST(Randomness, DrawsFollowTheirDistributions) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    Random random = random_for(seed, 0);
    EXPECT_LT(distance([&] { return uniform_draw(random); }, [](double x) { return x; }),
              kGreatestDistance);
    EXPECT_LT(distance([&] { return normal_draw(random); },
                       [](double x) { return std::erfc(-x / std::sqrt(2)) / 2; }),
              kGreatestDistance);
    EXPECT_LT(distance([&] { return exponential_draw(random, 4); },
                       [](double x) { return 1 - std::exp(-4 * x); }),
              kGreatestDistance);
  }
}

TEST(Randomness, TheTestSeesAWrongRate) {
  Random random = random_for(1, 0);
  EXPECT_GT(distance([&] { return exponential_draw(random, 4.2); },
                     [](double x) { return 1 - std::exp(-4 * x); }),
            kGreatestDistance);
}

TEST(Randomness, IntegersReachBothEndsEvenly) {
  Random random = random_for(7, 0);
  std::vector<int> counts(5);
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(integer_draw(random, 5))];
  // Binomial with n = kDraws, p = 1/5: five standard deviations.
  for (const int n : counts) EXPECT_NEAR(n, kDraws / 5.0, 5 * std::sqrt(kDraws * 0.16));
}

TEST(Randomness, EachUseHasItsOwnNumbers) {
  EXPECT_EQ(random_for(1, 2, 3)(), random_for(1, 2, 3)());
  EXPECT_NE(random_for(1, 2, 3)(), random_for(1, 2, 4)());
  EXPECT_NE(random_for(1, 2, 3)(), random_for(1, 3, 2)());
  EXPECT_NE(random_for(1, 2, 3)(), random_for(2, 1, 3)());
}

}  // namespace
}  // namespace penstock
