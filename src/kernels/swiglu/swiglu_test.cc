#include "kernels/swiglu/swiglu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/test_numbers_test.h"

namespace penstock {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// u = 2^-24: exp is within 1 ulp, 2 u; the sum, the quotient and the product round once each.
TEST(Swiglu, TheReferenceIsTheFormula) {
  const auto gate = random_floats(1000, 1, 8.0F);
  const auto up = random_floats(1000, 2);
  std::vector<float> y(1000);
  swiglu_exact_ref(dense_rows(gate.data(), 10, 100), dense_rows(up.data(), 10, 100),
                   dense_rows(y.data(), 10, 100));
  for (size_t i = 0; i < y.size(); ++i) {
    const double expected = double{gate[i]} / (1.0 + std::exp(-double{gate[i]})) * up[i];
    EXPECT_NEAR(y[i], expected, 5.1 * std::ldexp(std::abs(expected), -24));
  }
}

TEST(Swiglu, FarGatesAreZeroOrThemselves) {
  const std::vector<float> gate = {-200.0F, -100.0F, 100.0F, 200.0F, 0.0F};
  const std::vector<float> up = {3.0F, 3.0F, 3.0F, 3.0F, 3.0F};
  for (const Isa isa : supported_isas()) {
    std::vector<float> y(5);
    swiglu_exact(isa, dense_rows(gate.data(), 1, 5), dense_rows(up.data(), 1, 5),
                 dense_rows(y.data(), 1, 5));
    EXPECT_EQ(y, (std::vector<float>{-0.0F, -0.0F, 300.0F, 600.0F, 0.0F}));
  }
}

TEST(Swiglu, EveryIsaGivesTheReferencesBitsAndTouchesNothingElse) {
  for (const int64_t dim : {1, 7, 15, 16, 17, 40, 1536}) {
    const int64_t stride = dim + 3;
    const auto gate = random_floats(4 * stride, 1, 30.0F);
    const auto up = random_floats(4 * stride, 2);
    std::vector<float> expected(gate.size(), kNan);
    swiglu_exact_ref({gate.data(), 4, dim, stride}, {up.data(), 4, dim, stride},
                     {expected.data(), 4, dim, stride});
    for (const Isa isa : supported_isas()) {
      std::vector<float> y(gate.size(), kNan);
      swiglu_exact(isa, {gate.data(), 4, dim, stride}, {up.data(), 4, dim, stride},
                   {y.data(), 4, dim, stride});
      EXPECT_TRUE(same_bits(y, expected)) << to_string(isa) << " " << dim;
    }
  }
}

TEST(Swiglu, TheResultMayReplaceTheGateOrTheUp) {
  const auto gate = random_floats(50, 1);
  const auto up = random_floats(50, 2);
  for (const Isa isa : supported_isas()) {
    std::vector<float> apart(50), over_gate = gate, over_up = up;
    const auto rows = [](std::vector<float>& v) { return dense_rows(v.data(), 2, 25); };
    swiglu_exact(isa, dense_rows(gate.data(), 2, 25), dense_rows(up.data(), 2, 25), rows(apart));
    swiglu_exact(isa, rows(over_gate), dense_rows(up.data(), 2, 25), rows(over_gate));
    swiglu_exact(isa, dense_rows(gate.data(), 2, 25), rows(over_up), rows(over_up));
    EXPECT_TRUE(same_bits(over_gate, apart));
    EXPECT_TRUE(same_bits(over_up, apart));
  }
}

}  // namespace
}  // namespace penstock
