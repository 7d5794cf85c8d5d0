// Random activations, for tests and benchmarks.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace penstock {

// Numbers of a normal distribution from a fixed seed.
template <class Vector = std::vector<float>>
Vector random_floats(int64_t n, uint32_t seed, float deviation = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  Vector numbers(static_cast<size_t>(n));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

}  // namespace penstock
