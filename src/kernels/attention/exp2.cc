#include "kernels/attention/exp2.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace penstock {

float exp2_fast(float x) {
  using C = Exp2Constants;
  if (x < C::kLowest) return 0.0F;
  const float t = x + C::kRounder;
  const float r = x - (t - C::kRounder);
  float p = C::kPolynomial[0];
  for (int i = 1; i < 5; ++i) p = std::fma(p, r, C::kPolynomial[i]);
  // The low bits of t are n: shifted into the exponent, the bits of kRounder fall off.
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(t) << 23));
}

}  // namespace penstock
