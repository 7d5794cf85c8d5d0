#include "kernels/matmul/matmul.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>

#include "base/integers.h"
#include "kernels/matmul/random_matrix.h"
#include "tensor/codec.h"

namespace penstock {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = -12345.0F;
constexpr int64_t kRows = 16;

// Activations or results with NaN (or guards) between the rows and a stride that is no multiple of
// a register.
class PaddedRows {
 public:
  PaddedRows(int64_t n_rows, int64_t cols, float padding)
      : n_rows_(n_rows), cols_(cols), stride_(cols + 3) {
    values_.assign(static_cast<size_t>(n_rows * stride_ - 3), padding);
  }
  Rows<float> rows() { return {values_.data(), n_rows_, cols_, stride_}; }
  Rows<float> first(int64_t n) { return {values_.data(), n, cols_, stride_}; }

 private:
  int64_t n_rows_;
  int64_t cols_;
  int64_t stride_;
  std::vector<float> values_;
};

PaddedRows random_tokens(int64_t n_tokens, int64_t cols, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  PaddedRows tokens(n_tokens, cols, kNaN);
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (int64_t k = 0; k < cols; ++k) tokens.rows().row(t)[k] = normal(random);
  }
  return tokens;
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// Multiplies by `isa` and compares with `expected` inside `range`, with the guards outside.
testing::AssertionResult equals_reference(Isa isa, const MatrixView& w, Range range,
                                          Rows<const float> x, Rows<const float> expected) {
  PaddedRows y(x.n_rows, w.rows, kGuard);
  matmul_exact(isa, w, range, x, y.rows());
  for (int64_t t = 0; t < x.n_rows; ++t) {
    const int64_t padded = t + 1 < x.n_rows ? w.rows + 3 : w.rows;
    for (int64_t n = 0; n < padded; ++n) {
      const bool inside = n >= range.begin && n < range.end;
      const float want = inside ? expected.row(t)[n] : kGuard;
      if (same(y.rows().row(t)[n], want)) continue;
      return testing::AssertionFailure()
             << to_string(isa) << ", " << x.n_rows << " tokens, " << w.cols << " columns, rows ["
             << range.begin << ", " << range.end << "): y[" << t << ", " << n
             << "] = " << y.rows().row(t)[n] << ", expected " << want;
    }
  }
  return testing::AssertionSuccess();
}

std::vector<int64_t> edge_columns(Format format) {
  const int64_t group = info(format).group;
  if (group == 1) return {1, 15, 16, 17, 33, 160};
  return {group, 2 * group, 3 * group, 5 * group};
}

class MatmulExact : public testing::TestWithParam<FormatCase> {
 protected:
  RandomMatrix matrix(int64_t cols, Numbers numbers) const {
    const FormatCase& c = GetParam();
    return RandomMatrix(c.format, kRows, cols, numbers, /*seed=*/static_cast<uint64_t>(cols),
                        c.scale_format, c.group_cols, c.act_order);
  }
};

// The bound counts roundings: ceil(K/16) fma of a lane, 4 additions of the tree and the factor
// here; decode_row's own factor there; each at most 2^-24 of the sum of magnitudes.
TEST_P(MatmulExact, ReferenceIsNearTheProductInDoubles) {
  for (const int64_t cols : edge_columns(GetParam().format)) {
    const RandomMatrix w = matrix(cols, Numbers::kModest);
    PaddedRows x = random_tokens(3, cols, 1);
    PaddedRows y(3, kRows, kGuard);
    matmul_exact_ref(w.view(), {0, kRows}, x.rows(), y.rows());
    std::vector<float> weights(static_cast<size_t>(cols));
    for (int64_t n = 0; n < kRows; ++n) {
      decode_row(w.view(), n, weights);
      for (int64_t t = 0; t < 3; ++t) {
        double sum = 0;
        double magnitudes = 0;
        for (int64_t k = 0; k < cols; ++k) {
          const double product =
              double{x.rows().row(t)[k]} * double{weights[static_cast<size_t>(k)]};
          sum += product;
          magnitudes += std::abs(product);
        }
        const double roundings = static_cast<double>(ceil_div(cols, 16) + 4 + 1 + 1);
        const double bound = roundings * 0x1p-24 / (1 - roundings * 0x1p-24) * magnitudes;
        ASSERT_NEAR(double{y.rows().row(t)[n]}, sum, bound) << "row " << n << ", token " << t;
      }
    }
  }
}

// Bit for bit, whatever the isa, the number of tokens and the share of rows; and only those rows
// are written.
TEST_P(MatmulExact, EveryIsaBatchAndShareOfRowsEqualsTheReference) {
  constexpr int64_t kTokens = 64;
  for (const auto numbers : {Numbers::kModest, Numbers::kExtreme}) {
    for (const int64_t cols : edge_columns(GetParam().format)) {
      const RandomMatrix w = matrix(cols, numbers);
      PaddedRows x = random_tokens(kTokens, cols, 2);
      PaddedRows expected(kTokens, kRows, kNaN);
      matmul_exact_ref(w.view(), {0, kRows}, x.rows(), expected.rows());
      for (const Isa isa : supported_isas()) {
        for (const int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 17, 64}) {
          for (const Range range : {Range{0, kRows}, Range{3, 4}, Range{1, 12}, Range{5, 5}}) {
            ASSERT_TRUE(equals_reference(isa, w.view(), range, x.first(n), expected.first(n)));
          }
        }
      }
    }
  }
}

// Rows longer than a panel are multiplied in blocks of columns, their lanes carried from one to the
// next, for a limited number of tokens at a time.
TEST_P(MatmulExact, LongRowsEqualTheReference) {
  const int64_t group = info(GetParam().format).group;
  for (const int64_t least : {2049, 4400}) {
    const int64_t cols = group == 1 ? least : (least + group - 1) / group * group;
    const RandomMatrix w = matrix(cols, Numbers::kModest);
    PaddedRows x = random_tokens(101, cols, 3);
    PaddedRows expected(101, kRows, kNaN);
    const Range range = {2, 9};
    matmul_exact_ref(w.view(), range, x.rows(), expected.rows());
    for (const Isa isa : supported_isas()) {
      for (const int64_t n : {1, 5, 101}) {
        ASSERT_TRUE(equals_reference(isa, w.view(), range, x.first(n), expected.first(n)));
      }
    }
  }
}

TEST_P(MatmulExact, InterleavedRowsGiveTheSameBits) {
  const int64_t group = interleaved_block(GetParam().format).cols;
  if (group == 0) GTEST_SKIP() << "a format that is not interleaved";
  for (const int64_t cols : {group, 3 * group, 4096 + group}) {
    const RandomMatrix w(GetParam().format, 48, cols, Numbers::kExtreme, /*seed=*/5);
    const InterleavedCopy interleaved(w.view());
    for (const int64_t n_tokens : {1, 3, 40}) {
      PaddedRows x = random_tokens(n_tokens, cols, 3);
      PaddedRows expected(n_tokens, 48, kGuard);
      matmul_exact_ref(w.view(), {0, 48}, x.rows(), expected.rows());
      for (const Isa isa : supported_isas()) {
        for (const Range range : {Range{0, 48}, Range{5, 31}, Range{33, 34}}) {
          ASSERT_TRUE(equals_reference(isa, interleaved.view(), range, x.rows(), expected.rows()));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, MatmulExact, testing::ValuesIn(every_format_case()),
                         [](const auto& case_info) {
                           std::string name = case_info.param.name();
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

// More rows than a panel holds, whole and in blocks of columns.
TEST(MatmulExactEdges, ManyPanelsEqualTheReference) {
  for (const int64_t cols : {17, 1100, 4112}) {
    const RandomMatrix w(Format::kBF16, /*rows=*/150, cols, Numbers::kModest, /*seed=*/4);
    PaddedRows x = random_tokens(14, cols, 5);
    PaddedRows expected(14, 150, kNaN);
    const Range range = {1, 150};
    matmul_exact_ref(w.view(), range, x.rows(), expected.rows());
    for (const Isa isa : supported_isas()) {
      ASSERT_TRUE(equals_reference(isa, w.view(), range, x.rows(), expected.rows()));
    }
  }
}

// Where columns lie together, kernels take 128 rows at a time, in vectors of 8 or 16: the last of
// these may end behind the matrix, shares begin and end inside of them.
TEST(MatmulExactEdges, ManyRowsOfStoredColumnsEqualTheReference) {
  constexpr int64_t kMany = 280;
  for (const bool act_order : {false, true}) {
    for (const int64_t cols : {8, 72, 1304}) {
      for (const Format format : {Format::kGptq4, Format::kAwq4}) {
        if (act_order && format == Format::kAwq4) continue;
        const RandomMatrix w(format, kMany, cols, Numbers::kModest, /*seed=*/6, ScaleFormat::kF32,
                             /*group_cols=*/64, act_order);
        PaddedRows x = random_tokens(14, cols, 7);
        PaddedRows expected(14, kMany, kNaN);
        matmul_exact_ref(w.view(), {0, kMany}, x.rows(), expected.rows());
        for (const Isa isa : supported_isas()) {
          for (const int64_t n : {1, 2, 3, 14}) {
            for (const Range range : {Range{0, kMany}, Range{13, 275}, Range{272, kMany}}) {
              ASSERT_TRUE(equals_reference(isa, w.view(), range, x.first(n), expected.first(n)))
                  << info(format).name << (act_order ? " in act order" : "");
            }
          }
        }
      }
    }
  }
}

// 64 columns of one code each, so that every code meets the way that codes of its kind take.
TEST(MatmulExactEdges, EveryFp8CodeEqualsTheReference) {
  constexpr int64_t kCodes = 256;
  constexpr int64_t kCols = 64 + 16 + 3;
  std::vector<uint8_t> codes(static_cast<size_t>(kCodes * kCols));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i / kCols);
  const MatrixView w{.format = Format::kFp8Tensor,
                     .rows = kCodes,
                     .cols = kCols,
                     .data = std::as_bytes(std::span(codes))};
  PaddedRows x = random_tokens(7, kCols, 8);
  PaddedRows expected(7, kCodes, kNaN);
  matmul_exact_ref(w, {0, kCodes}, x.rows(), expected.rows());
  for (const Isa isa : supported_isas()) {
    for (const int64_t n : {1, 7}) {
      ASSERT_TRUE(equals_reference(isa, w, {0, kCodes}, x.first(n), expected.first(n)));
    }
  }
}

// A lane may end at -0 (a product too small for float32); columns that pad a register must leave
// it.
TEST(MatmulExactEdges, PaddingDoesNotTouchTheSignOfAZero) {
  const std::vector<float> weights(17, -0x1p-80F);
  const std::vector<float> tokens(17 * 8, 0x1p-80F);
  const MatrixView w{
      .format = Format::kF32, .rows = 1, .cols = 17, .data = std::as_bytes(std::span(weights))};
  for (const Isa isa : supported_isas()) {
    for (const int64_t n : {1, 8}) {
      std::vector<float> y(static_cast<size_t>(n), 1.0F);
      matmul_exact(isa, w, {0, 1}, {tokens.data(), n, 17, 17}, dense_rows(y.data(), n, 1));
      for (const float value : y) {
        EXPECT_EQ(std::bit_cast<uint32_t>(value), 0x80000000u) << to_string(isa) << ", " << n;
      }
    }
  }
}

// The order of additions is part of the contract: with these numbers every other order differs.
TEST(MatmulExactEdges, LanesAreSixteenAndMeetInHalves) {
  // Lane 0: 2^24, then + 1 (k = 16), which is lost; lane 8: 1; lane 4: -2^24.
  std::vector<float> weights(17, 0.0F);
  weights[0] = 0x1p24F;
  weights[16] = 1.0F;
  weights[8] = 1.0F;
  weights[4] = -0x1p24F;
  weights[12] = 3.0F;
  // 8 apart: 2^24 + 1 -> 2^24 (ties to even), -2^24 + 3 = -(2^24 - 3); 4 apart: 3.
  const std::vector<float> ones(17, 1.0F);
  const MatrixView w{
      .format = Format::kF32, .rows = 1, .cols = 17, .data = std::as_bytes(std::span(weights))};
  for (const Isa isa : supported_isas()) {
    float y = 0;
    matmul_exact(isa, w, {0, 1}, {ones.data(), 1, 17, 17}, dense_rows(&y, 1, 1));
    EXPECT_EQ(y, 3.0F) << to_string(isa);
  }
}

}  // namespace
}  // namespace penstock
