#include "cli/load/randomness.h"

#include <cmath>
#include <numbers>

namespace penstock {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): neighbouring inputs give
// unrelated outputs.
uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

Random random_for(uint64_t seed, uint64_t a, uint64_t b) {
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;
  return Random(scramble(scramble(scramble(seed + kStep) + a + kStep) + b + kStep));
}

double uniform_draw(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

int64_t integer_draw(Random& random, int64_t n) {
  return static_cast<int64_t>(uniform_draw(random) * static_cast<double>(n));
}

// Box and Muller's transform; 1 - u is never 0.
double normal_draw(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform_draw(random)));
  return radius * std::cos(2 * std::numbers::pi * uniform_draw(random));
}

double exponential_draw(Random& random, double rate) {
  return -std::log(1 - uniform_draw(random)) / rate;
}

}  // namespace penstock
