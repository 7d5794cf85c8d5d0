// exp of the exact class: one fixed sequence of float32 operations, so that every isa gives the
// same bits.
#pragma once

#include <limits>

namespace penstock {

// exp(x) within 1 ulp of the true value (exp_test.cc), as these steps, each rounded
// to float32:
//   x > kHighest: +inf;  x < kLowest: +0 (results that would be subnormal are flushed);  NaN:
//   itself t = fma(x, kLog2E, kRounder); n = t - kRounder           n = x / ln 2 to the nearest
//   integer r = fma(n, -kLn2High, x); r = fma(n, -kLn2Low, r)         |r| <= ln 2 / 2 p = Taylor's
//   polynomial of degree 7 in r, by Horner's rule in fma 2^n p, by adding n to the exponent of p
float exp_exact(float x);

// The vector versions (exp_avx2.h, exp_avx512.h) read the same constants.
struct ExpConstants {
  static constexpr float kHighest = 0x1.62e42ep+6F;  // the largest x whose exp is finite
  static constexpr float kLowest = -0x1.5d589ep+6F;  // the lowest x with exp(x) >= 2^-126
  static constexpr float kLog2E = 0x1.715476p+0F;
  static constexpr float kRounder = 0x1.8p+23F;  // adding it leaves no fraction bits
  static constexpr float kLn2High = 0x1.62e430p-1F;
  static constexpr float kLn2Low = -0x1.05c610p-29F;
  // 1/7!, 1/6!, ... 1/0!: beyond degree 7 a term is below 6e-9 of the sum.
  static constexpr float kTaylor[] = {1.0F / 5040, 1.0F / 720, 1.0F / 120, 1.0F / 24,
                                      1.0F / 6,    1.0F / 2,   1.0F,       1.0F};
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
};

}  // namespace penstock
