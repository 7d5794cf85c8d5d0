#include "engine/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace penstock {
namespace {

// The three vectors for philox4x32-10 in Random123's kat_vectors file.
TEST(Philox, AgreesWithItsAuthorsVectors) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsInTheHalfOpenIntervalAndEven) {
  constexpr int kDraws = 100'000;
  double sum = 0.0;
  std::array<int, 10> tenths = {};
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = uniform(/*seed=*/42, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    ++tenths[static_cast<size_t>(u * 10.0)];
  }
  // Standard deviations: sqrt(1/12/n) = 0.0009 of the mean, sqrt(n * 0.1 * 0.9) = 95 of a tenth.
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  for (const int n : tenths) EXPECT_NEAR(n, kDraws / 10.0, 500);
}

TEST(Philox, SeedAndIndexBothChoose) {
  std::set<double> seen;
  for (const uint64_t seed : {0ULL, 1ULL, 1ULL << 32, ~0ULL}) {
    for (const uint64_t index : {0ULL, 1ULL, 1ULL << 32}) seen.insert(uniform(seed, index));
  }
  EXPECT_EQ(seen.size(), 12U);
}

}  // namespace
}  // namespace penstock
