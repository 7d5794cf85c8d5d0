#include "kernels/exp.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cpu/isa.h"
#include "kernels/exp_test.h"
#include "kernels/test_numbers_test.h"

namespace penstock {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> exp_all(Isa isa, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  if (isa == Isa::kAvx2) exp_rows_avx2(x, y);
  if (isa >= Isa::kAvx512) exp_rows_avx512(x, y);
  if (isa == Isa::kScalar) {
    for (size_t i = 0; i < x.size(); ++i) y[i] = exp_exact(x[i]);
  }
  return y;
}

// Numbers around every place where the steps change their course.
std::vector<float> boundaries() {
  std::vector<float> numbers = {0.0F, -0.0F, kInf, -kInf, kNan, -kNan};
  const auto add_around = [&](float center) {
    float up = center;
    float down = center;
    for (int i = 0; i < 40; ++i) {
      numbers.push_back(up);
      numbers.push_back(down);
      up = std::nextafter(up, kInf);
      down = std::nextafter(down, -kInf);
    }
  };
  add_around(ExpConstants::kHighest);
  add_around(ExpConstants::kLowest);
  add_around(0.0F);
  for (int n = -127; n <= 128; ++n) add_around((static_cast<float>(n) + 0.5F) * 0.693147182F);
  while (numbers.size() % 16 != 0) numbers.push_back(1.0F);
  return numbers;
}

// Every 257th bit pattern: all exponents, both signs, NaNs.
template <class F>
void for_each_pattern(F check) {
  constexpr uint32_t kStep = 257;
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32);) {
    x.clear();
    for (; x.size() < (1 << 16) && bits < (uint64_t{1} << 32); bits += kStep) {
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
    while (x.size() % 16 != 0) x.push_back(0.0F);
    check(x);
  }
}

TEST(Exp, EveryIsaGivesTheSameBits) {
  const auto check = [](const std::vector<float>& x) {
    const auto expected = exp_all(Isa::kScalar, x);
    for (const Isa isa : supported_isas()) {
      ASSERT_TRUE(same_bits(exp_all(isa, x), expected)) << to_string(isa);
    }
  };
  check(boundaries());
  for_each_pattern(check);
}

// Distance from the true value in units of its last place.
double ulps_off(float y, double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::abs(y - exact) / std::ldexp(1.0, exponent - 23);
}

TEST(Exp, IsWithinTheStatedUlps) {
  double worst = 0;
  float worst_at = 0;
  const auto check = [&](const std::vector<float>& numbers) {
    for (const float x : numbers) {
      if (!(x >= ExpConstants::kLowest && x <= ExpConstants::kHighest)) continue;
      const double off = ulps_off(exp_exact(x), std::exp(double{x}));
      if (off > worst) worst_at = x;
      worst = std::max(worst, off);
    }
  };
  check(boundaries());
  for_each_pattern(check);
  EXPECT_LT(worst, 1.0) << "at " << worst_at;
  RecordProperty("worst_ulps", std::to_string(worst));
}

TEST(Exp, OverflowsAndFlushesExactlyAtItsEdges) {
  EXPECT_EQ(exp_exact(0.0F), 1.0F);
  EXPECT_EQ(exp_exact(-0.0F), 1.0F);
  EXPECT_EQ(exp_exact(kInf), kInf);
  EXPECT_EQ(exp_exact(-kInf), 0.0F);
  EXPECT_TRUE(std::isnan(exp_exact(kNan)));
  EXPECT_TRUE(std::isfinite(exp_exact(ExpConstants::kHighest)));
  const float above = std::nextafter(ExpConstants::kHighest, kInf);
  EXPECT_EQ(exp_exact(above), kInf);
  EXPECT_GT(std::exp(double{above}), std::numeric_limits<float>::max());
  EXPECT_GE(exp_exact(ExpConstants::kLowest), std::numeric_limits<float>::min());
  const float below = std::nextafter(ExpConstants::kLowest, -kInf);
  EXPECT_EQ(std::bit_cast<uint32_t>(exp_exact(below)), 0u);
  EXPECT_LT(std::exp(double{below}), std::numeric_limits<float>::min());
}

}  // namespace
}  // namespace penstock
