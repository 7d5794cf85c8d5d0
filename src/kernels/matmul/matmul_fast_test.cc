#include "kernels/matmul/matmul_fast.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/integers.h"
#include "kernels/matmul/integer_kernels.h"
#include "kernels/matmul/random_matrix.h"
#include "kernels/matmul/tile_filler.h"
#include "tensor/codec.h"

namespace penstock {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kUntouched = -77.0F;  // what a result holds before

// A few numbers are a thousand times the others, as in real activations; the first 32 columns of
// every third row are 0.
std::vector<float> activations(int64_t n_rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n_rows * cols));
  for (float& number : x) number = normal(random) * (random() % 97 == 0 ? 1000.0F : 1.0F);
  for (int64_t t = 0; t < n_rows; t += 3) {
    std::fill_n(x.begin() + t * cols, std::min<int64_t>(cols, 32), 0.0F);
  }
  return x;
}

std::vector<Isa> isas_from(Isa least) {
  std::vector<Isa> isas = supported_isas();
  std::erase_if(isas, [&](Isa isa) { return isa < least; });
  return isas;
}

struct Product {
  Product(const MatrixView& w, std::vector<float> x_in, int64_t n_decode_in)
      : matrix(w), x(std::move(x_in)), n_decode(n_decode_in) {}

  Rows<const float> rows() const {
    return dense_rows(x.data(), static_cast<int64_t>(x.size()) / matrix.cols, matrix.cols);
  }
  std::vector<float> multiply(Isa isa, Range of_rows) const {
    FastActivations ready;
    ready.begin(isa, rows(), n_decode, has_integer_kernel(isa, matrix));
    for (int64_t i = 0; i < ready.n_parts(); ++i) ready.prepare({i, i + 1});
    std::vector<float> y(static_cast<size_t>(rows().n_rows * matrix.rows), kUntouched);
    matmul_fast(isa, matrix, of_rows, ready, dense_rows(y.data(), rows().n_rows, matrix.rows));
    return y;
  }
  std::vector<float> multiply(Isa isa) const { return multiply(isa, {0, matrix.rows}); }

  const MatrixView& matrix;
  std::vector<float> x;
  int64_t n_decode;
};

// sum_k |w[n, k]| |x[t, k]|, with `most` for |x| where given.
double magnitude(const MatrixView& w, int64_t n, const float* x) {
  std::vector<float> weights(static_cast<size_t>(w.cols));
  widen_row(w, n, weights);
  double sum = 0;
  for (int64_t k = 0; k < w.cols; ++k) {
    sum += std::abs(double{weights[static_cast<size_t>(k)]} * x[k]);
  }
  return std::abs(double{w.scale}) * sum;
}

// What this machine can run of them.
std::vector<const IntegerKernels*> every_integer_kernels() {
  std::vector<const IntegerKernels*> all;
  if (supported_isas().back() >= Isa::kAvx2) all.push_back(&integer_kernels_avx2());
  if (has_avx_vnni()) all.push_back(&integer_kernels_avxvnni());
  if (supported_isas().back() >= Isa::kAvx512) all.push_back(&integer_kernels_avx512());
  if (supported_isas().back() >= Isa::kAmx) all.push_back(&integer_kernels_amx());
  return all;
}
std::string_view name_of(const IntegerKernels& kernels) {
  return &kernels == &integer_kernels_avx2()      ? "avx2"
         : &kernels == &integer_kernels_avxvnni() ? "avxvnni"
         : &kernels == &integer_kernels_avx512()  ? "avx512"
                                                  : "amx";
}

// kUntouched where `rows` are not; nothing where the format has no kernel.
std::vector<float> multiply_by(const IntegerKernels& kernels, const MatrixView& w, Range rows,
                               const Int16Rows& codes) {
  const MultiplyIntegerRows multiply = kernels.of(w.format, w.layout);
  if (multiply == nullptr) return {};
  std::vector<Int16Row> x;
  x.reserve(static_cast<size_t>(codes.n_rows()));
  for (int64_t t = 0; t < codes.n_rows(); ++t) x.push_back(codes.row(t));
  std::vector<float> y(static_cast<size_t>(codes.n_rows() * w.rows), kUntouched);
  multiply(stored_rows(w), w.rows, rows, x.data(), codes.n_rows(), w.scale, y.data(), w.rows);
  return y;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// Where blocks keep their codes, and a byte of the largest that integer kernels make of them.
struct LargestCodes {
  Format format = Format::kF32;
  size_t block_bytes = 0;
  size_t begin = 0, end = 0;
  std::byte byte = {};
};
constexpr LargestCodes kLargestCodes[] = {
    {Format::kQ4_0, 18, 2, 18, std::byte{0xFF}},
    {Format::kQ4_1, 20, 4, 20, std::byte{0xFF}},
    {Format::kQ8_0, 34, 2, 34, std::byte{0x7F}},
    {Format::kQ4_K, 144, 16, 144, std::byte{0xFF}},
    {Format::kQ6_K, 210, 0, 192, std::byte{0xFF}},
    {Format::kMxfp4, 1, 0, 1, std::byte{0x77}},
    {Format::kMxfp4Block, 17, 1, 17, std::byte{0x77}},
    {Format::kNvfp4, 1, 0, 1, std::byte{0x77}},
    {Format::kNvfp4Block, 36, 4, 36, std::byte{0x77}},
};

// Of decode's sums, relative to their terms' magnitudes. Only the float32 sums round: two terms for
// each group, which together are some times what their weights are worth, since codes are unsigned
// and offsets cancel (16 times covers every format).
double rounding(int64_t cols) {
  const int64_t n_roundings = cols / 8 + 8;
  return 16 * 0x1p-24 * static_cast<double>(n_roundings);
}

class MatmulFast : public testing::TestWithParam<FormatCase> {
 protected:
  static int64_t whole_groups(int64_t cols) {
    const int64_t group = info(GetParam().format).group;
    return (cols + group - 1) / group * group;
  }
  static RandomMatrix matrix(int64_t rows, int64_t cols, uint64_t seed) {
    return RandomMatrix(GetParam().format, rows, whole_groups(cols), Numbers::kModest, seed,
                        GetParam().scale_format, GetParam().group_cols);
  }
};

TEST_P(MatmulFast, DecodeIsNearTheReferenceOnTheSameCodes) {
  for (const int64_t cols : {32, 64, 96, 512, 576, 1056, 1536, 4096}) {
    const RandomMatrix random = matrix(40, cols, 3);  // the last panel reaches back
    const MatrixView& w = random.view();
    for (const Isa isa : isas_from(Isa::kAvx2)) {
      if (!has_integer_kernel(isa, w)) continue;
      const Product product(w, activations(11, w.cols, 5), 11);
      const std::vector<float> y = product.multiply(isa);
      Int16Rows codes;
      codes.resize(11, w.cols);
      codes.quantise(Isa::kScalar, product.rows(), {0, 11});
      std::vector<float> expected(y.size());
      matmul_integer_ref(w, {0, w.rows}, codes, dense_rows(expected.data(), 11, w.rows));
      std::vector<float> widest(static_cast<size_t>(w.cols));
      for (size_t i = 0; i < y.size(); ++i) {
        const auto t = static_cast<int64_t>(i) / w.rows;
        const Int16Row row = codes.row(t);
        for (int64_t k = 0; k < w.cols; ++k) {
          widest[static_cast<size_t>(k)] = row.scale(k / kInt16Group) * kLargestCode;
        }
        const double bound =
            rounding(w.cols) * magnitude(w, static_cast<int64_t>(i) % w.rows, widest.data());
        ASSERT_NEAR(y[i], expected[i], bound)
            << to_string(isa) << " cols " << w.cols << " at " << i;
      }
    }
  }
}

// The largest codes that bytes can hold: sums that saturate somewhere would be far off.
TEST_P(MatmulFast, TheLargestProductsStayExact) {
  const auto largest = std::ranges::find(kLargestCodes, GetParam().format, &LargestCodes::format);
  if (largest == std::end(kLargestCodes)) GTEST_SKIP() << "no integer kernel";
  constexpr int64_t kCols = 512;
  const RandomMatrix random = matrix(24, kCols, 43);
  std::vector<std::byte> data(random.view().data.begin(), random.view().data.end());
  for (size_t i = 0; i < data.size(); ++i) {
    const size_t in_block = i % largest->block_bytes;
    if (in_block >= largest->begin && in_block < largest->end) data[i] = largest->byte;
  }
  MatrixView w = random.view();
  w.data = data;
  // Every group has a code of kLargestCode, the others' bytes are 127 and 127, or 127 and -128.
  for (const float others : {kLargestCode, 127.0F * 256.0F - 128.0F, -kLargestCode}) {
    std::vector<float> x(kCols, others);
    for (size_t k = 0; k < x.size(); k += kInt16Group) x[k] = kLargestCode;
    Int16Rows codes;
    codes.resize(1, kCols);
    codes.quantise(Isa::kScalar, dense_rows(std::as_const(x).data(), 1, kCols), {0, 1});
    std::vector<float> expected(24);
    matmul_integer_ref(w, {0, 24}, codes, dense_rows(expected.data(), 1, 24));
    for (const IntegerKernels* kernels : every_integer_kernels()) {
      const std::vector<float> y = multiply_by(*kernels, w, {0, w.rows}, codes);
      for (int64_t n = 0; n < 24; ++n) {
        const double bound = rounding(kCols) * magnitude(w, n, x.data());
        ASSERT_NEAR(y[static_cast<size_t>(n)], expected[static_cast<size_t>(n)], bound)
            << name_of(*kernels) << " row " << n << " others " << others;
      }
    }
  }
}

// Exact sums in integers and one order in float32: what differs is only how it is done.
TEST_P(MatmulFast, EveryIntegerKernelGivesTheSameBits) {
  if (integer_kernels_avx2().of(GetParam().format, Layout::kRows) == nullptr) {
    GTEST_SKIP() << "no integer kernel";
  }
  constexpr int64_t kTokens = 15;  // 8, 4, 2 and 1 at a time
  for (const Numbers numbers : {Numbers::kModest, Numbers::kExtreme}) {
    for (const int64_t cols : {32, 64, 96, 512, 576, 1056, 4096}) {
      const RandomMatrix random(GetParam().format, /*rows=*/37, whole_groups(cols), numbers, 47);
      const MatrixView& w = random.view();
      std::vector<float> x = activations(kTokens, w.cols, 53);
      x[static_cast<size_t>(w.cols + 5)] = kNan;
      Int16Rows codes;
      codes.resize(kTokens, w.cols);
      codes.quantise(Isa::kScalar, dense_rows(std::as_const(x).data(), kTokens, w.cols),
                     {0, kTokens});
      std::vector<float> first;
      for (const IntegerKernels* kernels : every_integer_kernels()) {
        const std::vector<float> whole = multiply_by(*kernels, w, {0, w.rows}, codes);
        const std::vector<float> some = multiply_by(*kernels, w, {5, 31}, codes);
        if (first.empty()) first = whole;
        for (size_t i = 0; i < whole.size(); ++i) {
          const int64_t n = static_cast<int64_t>(i) % w.rows;
          ASSERT_PRED2(same_bits, whole[i], first[i])
              << name_of(*kernels) << " cols " << w.cols << " at " << i;
          ASSERT_PRED2(same_bits, some[i], n >= 5 && n < 31 ? first[i] : kUntouched)
              << name_of(*kernels) << " cols " << w.cols << " at " << i;
        }
      }
    }
  }
}

// The order of a matrix' bytes is no part of its product.
TEST_P(MatmulFast, BothLayoutsGiveTheSameBits) {
  const int64_t block = interleaved_block(GetParam().format).cols;
  if (block == 0) GTEST_SKIP() << "a format that is not interleaved";
  for (const Numbers numbers : {Numbers::kModest, Numbers::kExtreme}) {
    for (const int64_t cols : {block, 3 * block, 16 * block}) {
      const RandomMatrix random(GetParam().format, /*rows=*/80, cols, numbers, 59);
      const InterleavedCopy interleaved(random.view());
      const std::vector<float> x = activations(47, cols, 61);
      for (const Isa isa : supported_isas()) {
        for (const int64_t n_decode : {0, 15, 47}) {
          for (const Range range : {Range{0, 80}, Range{16, 80}, Range{32, 41}}) {
            const std::vector<float> expected =
                Product(random.view(), x, n_decode).multiply(isa, range);
            const std::vector<float> found =
                Product(interleaved.view(), x, n_decode).multiply(isa, range);
            for (size_t i = 0; i < found.size(); ++i) {
              ASSERT_PRED2(same_bits, found[i], expected[i])
                  << to_string(isa) << " cols " << cols << " decode " << n_decode << " at " << i;
            }
          }
        }
      }
      Int16Rows codes;
      codes.resize(15, cols);
      codes.quantise(Isa::kScalar, dense_rows(x.data(), 15, cols), {0, 15});
      for (const IntegerKernels* kernels : every_integer_kernels()) {
        for (const Range range : {Range{0, 80}, Range{5, 31}, Range{15, 17}}) {
          const auto expected = multiply_by(*kernels, random.view(), range, codes);
          const auto found = multiply_by(*kernels, interleaved.view(), range, codes);
          ASSERT_EQ(found.size(), expected.size());
          for (size_t i = 0; i < found.size(); ++i) {
            ASSERT_PRED2(same_bits, found[i], expected[i])
                << name_of(*kernels) << " cols " << cols << " at " << i;
          }
        }
      }
    }
  }
}

// Leaves NaN in all working memory that a thread keeps: nothing of it may reach the next product.
void poison_working_memory(Isa isa) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kCols = 4096;
  const std::vector<uint16_t> nan(static_cast<size_t>(kRows * kCols), 0x7FC0);
  const MatrixView w = {
      .format = Format::kBF16, .rows = kRows, .cols = kCols, .data = std::as_bytes(std::span(nan))};
  Product(w, std::vector<float>(kCols, 1.0F), 0).multiply(isa);
}

// In bf16 the operands are the reference's; TDPBF16PS adds cols / 2 pairs in float32.
TEST_P(MatmulFast, PrefillIsNearTheReferenceInBf16) {
  for (const Isa isa : isas_from(Isa::kAmx)) {
    for (const int64_t cols : {32, 48, 576, 1040, 4128}) {
      for (const int64_t n_tokens : {1, 16, 31, 33, 70}) {
        const RandomMatrix random = matrix(48, cols, 7);
        const MatrixView& w = random.view();
        const Product product(w, activations(n_tokens, w.cols, 11), 0);
        poison_working_memory(isa);
        const std::vector<float> y = product.multiply(isa, {8, w.rows});
        std::vector<float> expected(y.size(), kUntouched);
        matmul_bf16_ref(w, {8, w.rows}, product.rows(),
                        dense_rows(expected.data(), n_tokens, w.rows));
        for (size_t i = 0; i < y.size(); ++i) {
          const auto t = static_cast<int64_t>(i) / w.rows;
          const double bound =
              static_cast<double>(w.cols + 4) * 0x1p-24 *
              magnitude(w, static_cast<int64_t>(i) % w.rows, product.rows().row(t));
          ASSERT_NEAR(y[i], expected[i], bound)
              << to_string(isa) << " cols " << w.cols << " tokens " << n_tokens << " at " << i;
        }
      }
    }
  }
}

// A row alone, in its batch, behind others, and with the weights' rows split: the same bits.
TEST_P(MatmulFast, ARowDependsOnNothingBesideIt) {
  constexpr int64_t kTokens = 45;
  const RandomMatrix random = matrix(56, 576, 13);
  const MatrixView& w = random.view();
  const std::vector<float> x = activations(kTokens, w.cols, 17);
  for (const Isa isa : supported_isas()) {
    for (const int64_t n_decode : {int64_t{0}, int64_t{13}, kTokens}) {
      const std::vector<float> whole = Product(w, x, n_decode).multiply(isa);
      const std::vector<float> upper = Product(w, x, n_decode).multiply(isa, {32, w.rows});
      const std::vector<float> lower = Product(w, x, n_decode).multiply(isa, {0, 32});
      for (int64_t t = 0; t < kTokens; ++t) {
        const std::vector<float> row(x.begin() + t * w.cols, x.begin() + (t + 1) * w.cols);
        const std::vector<float> alone = Product(w, row, t < n_decode ? 1 : 0).multiply(isa);
        for (int64_t n = 0; n < w.rows; ++n) {
          const auto at = static_cast<size_t>(t * w.rows + n);
          ASSERT_EQ(whole[at], alone[static_cast<size_t>(n)]) << to_string(isa) << ' ' << t;
          ASSERT_EQ(whole[at], n < 32 ? lower[at] : upper[at]) << to_string(isa) << ' ' << t;
        }
      }
    }
  }
}

TEST_P(MatmulFast, ANanSpoilsItsRowAndNoOther) {
  const RandomMatrix random = matrix(24, 576, 19);
  const MatrixView& w = random.view();
  std::vector<float> x = activations(4, w.cols, 23);
  x[static_cast<size_t>(w.cols + 40)] = kNan;
  x[static_cast<size_t>(3 * w.cols + 41)] = std::numeric_limits<float>::infinity();
  for (const Isa isa : supported_isas()) {
    for (const int64_t n_decode : {0, 4}) {
      const std::vector<float> y = Product(w, x, n_decode).multiply(isa);
      for (int64_t n = 0; n < w.rows; ++n) {
        const auto at = static_cast<size_t>(n);
        const auto rows = static_cast<size_t>(w.rows);
        EXPECT_TRUE(std::isfinite(y[at]) && std::isfinite(y[2 * rows + at])) << to_string(isa);
        EXPECT_TRUE(std::isnan(y[rows + at])) << to_string(isa);
        EXPECT_FALSE(std::isfinite(y[3 * rows + at])) << to_string(isa);
      }
    }
  }
}

// Bytes that end where an OS page does, with one behind them that nobody may touch.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::span<const std::byte> bytes) : n_(bytes.size()) {
    const size_t whole = round_up(static_cast<int64_t>(n_), kPage);
    all_ = {static_cast<std::byte*>(mmap(nullptr, whole + kPage, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
            whole + kPage};
    PENSTOCK_CHECK(all_.data() != MAP_FAILED, "no memory");
    std::ranges::copy(bytes, all_.data() + whole - n_);
    PENSTOCK_CHECK(mprotect(all_.data() + whole, kPage, PROT_NONE) == 0, "no guard");
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() { munmap(all_.data(), all_.size()); }

  std::span<const std::byte> bytes() const { return all_.last(n_ + kPage).first(n_); }

 private:
  static constexpr size_t kPage = 4096;
  size_t n_;
  std::span<std::byte> all_;
};

// The files of the integer kernels are not built with sanitizers (cmake/Rooms.cmake).
TEST_P(MatmulFast, ReadsNothingBehindTheMatrix) {
  const auto check = [](const MatrixView& w) {
    const GuardedBytes data(w.data), scales(w.scales), zeros(w.zeros);
    MatrixView guarded = w;
    guarded.data = data.bytes();
    guarded.scales = scales.bytes();
    guarded.zeros = zeros.bytes();
    const std::vector<float> x = activations(9, w.cols, 43);
    for (const Isa isa : supported_isas()) {
      for (const int64_t n_decode : {0, 9}) {
        const std::vector<float> expected = Product(w, x, n_decode).multiply(isa);
        EXPECT_EQ(Product(guarded, x, n_decode).multiply(isa), expected) << to_string(isa);
      }
    }
  };
  for (const int64_t cols : {32, 48, 80, 576}) {
    for (const int64_t rows : {40, 48}) {
      const RandomMatrix random = matrix(rows, cols, 41);
      MatrixView w = random.view();
      w.data = w.data.first(*data_bytes(w.format, w.rows, w.cols));
      w.scales = w.scales.first(scales_bytes(w));
      check(w);
      if (has_interleaved_shape(w)) check(InterleavedCopy(w).view());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, MatmulFast, testing::ValuesIn(every_format_case()),
                         [](const auto& test) {
                           std::string name = test.param.name();
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

TEST(MatmulFastFormats, HaveIntegerKernelsWhereTheClassSaysSo) {
  EXPECT_FALSE(has_integer_kernel(Isa::kScalar, {.format = Format::kQ4_0, .rows = 16}));
  for (const Isa isa : isas_from(Isa::kAvx2)) {
    for (const Format format :
         {Format::kQ4_0, Format::kQ4_1, Format::kQ8_0, Format::kQ4_K, Format::kQ6_K, Format::kMxfp4,
          Format::kMxfp4Block, Format::kNvfp4, Format::kNvfp4Block}) {
      EXPECT_TRUE(has_integer_kernel(isa, {.format = format, .rows = 16})) << info(format).name;
    }
    EXPECT_FALSE(has_integer_kernel(isa, {.format = Format::kBF16, .rows = 16}));
    EXPECT_FALSE(has_integer_kernel(isa, {.format = Format::kQ4_0, .rows = 15}));
  }
}

int code(const Int16Row& row, int64_t k) { return 256 * row.high[k] + row.low[k]; }

TEST(Int16Rows, CodesAreTheNearestAndEveryIsaAgrees) {
  for (const int64_t cols : {1, 16, 17, 31, 32, 33, 512, 576, 1000, 1536}) {
    const std::vector<float> x = activations(5, cols, 29);
    for (const Isa isa : supported_isas()) {
      Int16Rows rows;
      rows.resize(5, cols);
      rows.quantise(isa, dense_rows(x.data(), 5, cols), {0, 5});
      Int16Rows scalar;
      scalar.resize(5, cols);
      scalar.quantise(Isa::kScalar, dense_rows(x.data(), 5, cols), {0, 5});
      for (int64_t t = 0; t < 5; ++t) {
        const Int16Row row = rows.row(t);
        const Int16Row same = scalar.row(t);
        for (int64_t k = 0; k < cols; ++k) {
          const float scale = row.scale(k / kInt16Group);
          ASSERT_EQ(row.high[k], same.high[k]) << to_string(isa) << ' ' << k;
          ASSERT_EQ(row.low[k], same.low[k]) << to_string(isa) << ' ' << k;
          ASSERT_EQ(scale, same.scale(k / kInt16Group)) << to_string(isa);
          ASSERT_EQ(row.sum_16(k / 16), same.sum_16(k / 16));
          ASSERT_EQ(row.sum_32(k / 32), same.sum_32(k / 32));
          const float number = x[static_cast<size_t>(t * cols + k)];
          ASSERT_LE(std::abs(number - scale * static_cast<float>(code(row, k))), 0.505F * scale);
        }
      }
    }
  }
}

// Each spoils its own group of a row that has several spans, and no other.
TEST(Int16Rows, NumbersThatAreNotFiniteSpoilTheirGroupAlone) {
  constexpr int64_t kCols = 2 * kInt16Span + 40;
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const int64_t place : {0, 15, 16, 300, 511, 512, 900, 1024, 1063}) {
      std::vector<float> x = activations(1, kCols, 43);
      std::fill_n(x.begin() + 64, 32, 0x1p-130F);  // a group of subnormal numbers
      x[static_cast<size_t>(place)] = bad;
      for (const Isa isa : supported_isas()) {
        Int16Rows rows;
        rows.resize(1, kCols);
        rows.quantise(isa, dense_rows(std::as_const(x).data(), 1, kCols), {0, 1});
        const Int16Row row = rows.row(0);
        for (int64_t k = 0; k < kCols; ++k) {
          const bool spoiled = k / kInt16Group == place / kInt16Group;
          ASSERT_EQ(std::isnan(row.scale(k / kInt16Group)), spoiled) << to_string(isa) << ' ' << k;
          ASSERT_EQ(std::isnan(row.sum_32(k / kInt16Group)), spoiled) << to_string(isa) << ' ' << k;
          ASSERT_EQ(std::isnan(row.sum_16(k / 16)), spoiled) << to_string(isa) << ' ' << k;
          if (spoiled || k / kInt16Group == 2) {
            ASSERT_EQ(code(row, k), 0) << to_string(isa) << ' ' << k;
          }
        }
      }
    }
  }
}

// kLargestCode over their largest would be infinite, and 0 times that NaN.
TEST(Int16Rows, GroupsOfTinyNumbersHaveCodesOfZero) {
  std::vector<float> x(40, 0x1p-130F);
  x[3] = 0.0F;
  for (const Isa isa : supported_isas()) {
    Int16Rows rows;
    rows.resize(1, 40);
    rows.quantise(isa, dense_rows(std::as_const(x).data(), 1, 40), {0, 1});
    for (int64_t k = 0; k < 40; ++k) EXPECT_EQ(code(rows.row(0), k), 0) << to_string(isa);
    for (int64_t group = 0; group < 2; ++group) {
      EXPECT_LT(rows.row(0).scale(group), 0x1p-100F) << to_string(isa);
      EXPECT_EQ(rows.row(0).sum_32(group), 0.0F) << to_string(isa);
    }
  }
}

TEST(Int16Rows, NothingOfLongerRowsIsLeftBehindShorterOnes) {
  for (const Isa isa : supported_isas()) {
    Int16Rows rows;
    rows.resize(2, kInt16Span);
    const std::vector<float> nan(2 * kInt16Span, kNan);
    rows.quantise(isa, dense_rows(nan.data(), 2, kInt16Span), {0, 2});
    rows.resize(2, 40);
    const std::vector<float> x = activations(2, 40, 37);
    rows.quantise(isa, dense_rows(x.data(), 2, 40), {0, 2});
    for (int64_t t = 0; t < 2; ++t) {
      for (int64_t group = 2; group < kInt16Span / kInt16Group; ++group) {
        EXPECT_EQ(rows.row(t).scale(group), 0.0F) << to_string(isa) << ' ' << group;
        EXPECT_EQ(rows.row(t).sum_32(group), 0.0F) << to_string(isa) << ' ' << group;
        EXPECT_EQ(rows.row(t).sum_16(2 * group), 0.0F) << to_string(isa) << ' ' << group;
        EXPECT_EQ(rows.row(t).sum_16(2 * group + 1), 0.0F) << to_string(isa) << ' ' << group;
      }
    }
  }
}

TEST(Int16Rows, SumsAreThoseOfTheCodes) {
  const std::vector<float> x = activations(1, 64, 31);
  Int16Rows rows;
  rows.resize(1, 64);
  rows.quantise(supported_isas().back(), dense_rows(x.data(), 1, 64), {0, 1});
  const Int16Row row = rows.row(0);
  for (int half = 0; half < 4; ++half) {
    int sum = 0;
    for (int k = 16 * half; k < 16 * half + 16; ++k) sum += code(row, k);
    EXPECT_EQ(row.sum_16(half), row.scale(half / 2) * static_cast<float>(sum));
  }
}

}  // namespace
}  // namespace penstock
