// 2^x of the class `fast`: weights that are rounded to bf16 next need no more than this.
#pragma once

namespace penstock {

// 2^x for x <= 0, with a relative error below 2^-18 (exp2_test.cc). Each step is rounded to
// float32, so every isa gives the same bits:
//   x < kLowest: +0
//   t = x + kRounder;  n = t - kRounder;  r = x - n    n is x to the nearest integer, |r| <= 1/2
//   p = kPolynomial in r, by Horner's rule in fma
//   2^n p, by adding n to the exponent of p
// 2^0 is exactly 1.
float exp2_fast(float x);

struct Exp2Constants {
  static constexpr float kLowest = -126.0F;      // below it, results would be subnormal
  static constexpr float kRounder = 0x1.8p+23F;  // adding it leaves no fraction bits
  // Coefficients of r^4 to r^0, the last one held at 1: the least largest relative error over
  // |r| <= 1/2, which is 2.83e-6 (Lawson's iteration on 4001 points, in float64).
  static constexpr float kPolynomial[] = {0x1.3a01e0p-7F, 0x1.c9fbf8p-5F, 0x1.ec0378p-3F,
                                          0x1.62e12ep-1F, 1.0F};
};

}  // namespace penstock
