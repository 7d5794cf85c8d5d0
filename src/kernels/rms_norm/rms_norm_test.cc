#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/test_numbers_test.h"

namespace penstock {
namespace {

constexpr float kEps = 1e-5F;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// n_rows rows of x and y `stride` apart; what lies between rows is NaN, and must stay so in y.
struct Data {
  Data(int64_t n_rows_, int64_t cols_, int64_t stride_)
      : n_rows(n_rows_), cols(cols_), stride(stride_), w(random_floats(cols, 2)) {
    x = random_floats(n_rows * stride, 1, 3.0F);
    y.assign(x.size(), kNan);
    for (int64_t i = 0; i < n_rows * stride; ++i) {
      if (i % stride >= cols) x[static_cast<size_t>(i)] = kNan;
    }
  }
  Rows<const float> in() const { return {x.data(), n_rows, cols, stride}; }
  Rows<float> out() { return {y.data(), n_rows, cols, stride}; }

  int64_t n_rows, cols, stride;
  std::vector<float> w, x, y;
};

class RmsNorm : public testing::TestWithParam<int64_t> {};

// Relative error, u = 2^-24: the sum of squares has chains of cols / 16 adds and 4 more; its half
// reaches the root; then division, root, reciprocal and two products round once each.
TEST_P(RmsNorm, TheReferenceIsTheFormula) {
  Data data(3, GetParam(), GetParam());
  rms_norm_exact_ref(data.in(), data.w, kEps, data.out());
  const double u = std::ldexp(1.0, -24);
  const double tolerance = (std::ceil(static_cast<double>(data.cols) / 16) / 2 + 2 + 6) * u;
  for (int64_t t = 0; t < data.n_rows; ++t) {
    double sum = 0;
    for (int64_t i = 0; i < data.cols; ++i)
      sum += double{data.in().row(t)[i]} * data.in().row(t)[i];
    const double root = std::sqrt(sum / static_cast<double>(data.cols) + double{kEps});
    for (int64_t i = 0; i < data.cols; ++i) {
      const double expected = data.w[static_cast<size_t>(i)] * double{data.in().row(t)[i]} / root;
      ASSERT_NEAR(data.out().row(t)[i], expected, tolerance * std::abs(expected)) << t << " " << i;
    }
  }
}

TEST_P(RmsNorm, EveryIsaGivesTheReferencesBitsAndTouchesNothingElse) {
  Data expected(4, GetParam(), GetParam() + 5);
  rms_norm_exact_ref(expected.in(), expected.w, kEps, expected.out());
  for (const Isa isa : supported_isas()) {
    Data data(4, GetParam(), GetParam() + 5);
    rms_norm_exact(isa, data.in(), data.w, kEps, data.out());
    EXPECT_TRUE(same_bits(data.y, expected.y)) << to_string(isa);
    rms_norm_exact(isa, data.in(), data.w, kEps, {data.x.data(), 4, data.cols, data.stride});
    EXPECT_TRUE(same_bits(data.x, expected.y)) << to_string(isa) << " in place";
  }
}

INSTANTIATE_TEST_SUITE_P(Columns, RmsNorm,
                         testing::Values(1, 7, 8, 15, 16, 17, 31, 33, 64, 80, 576, 4096, 5120));

TEST(RmsNorm, ARowOfZerosStaysZero) {
  const std::vector<float> w(20, 1.0F);
  for (const Isa isa : supported_isas()) {
    std::vector<float> x(20, 0.0F);
    rms_norm_exact(isa, dense_rows<const float>(x.data(), 1, 20), w, kEps,
                   dense_rows(x.data(), 1, 20));
    EXPECT_EQ(x, std::vector<float>(20, 0.0F));
  }
}

}  // namespace
}  // namespace penstock
