#include "kernels/exp.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace penstock {

float exp_exact(float x) {
  using C = ExpConstants;
  if (x > C::kHighest) return C::kInfinity;
  if (x < C::kLowest) return 0.0F;
  if (std::isnan(x)) return x;

  const float t = std::fma(x, C::kLog2E, C::kRounder);
  const float n = t - C::kRounder;
  const float r = std::fma(n, -C::kLn2Low, std::fma(n, -C::kLn2High, x));
  float p = C::kTaylor[0];
  for (int i = 1; i < 8; ++i) p = std::fma(p, r, C::kTaylor[i]);
  // The low bits of t are n: shifted into the exponent, the bits of kRounder fall off.
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(t) << 23));
}

}  // namespace penstock
