// Random rows and exact comparison, for the kernels' tests.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace penstock {

// Numbers of a normal distribution from a fixed seed.
inline std::vector<float> random_floats(int64_t n, uint32_t seed, float deviation = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> numbers(static_cast<size_t>(n));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// The same bits, so that NaN equals itself and -0 is not +0.
inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " and " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return testing::AssertionFailure() << "at " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace penstock
