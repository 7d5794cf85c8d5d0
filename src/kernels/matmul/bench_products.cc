#include "kernels/matmul/bench_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/aligned.h"
#include "base/check.h"
#include "base/integers.h"
#include "cpu/share_rows.h"
#include "kernels/matmul/chunk_rows.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_fast.h"
#include "kernels/matmul/random_matrix.h"
#include "kernels/random_floats.h"

namespace penstock {
namespace {

// Scales as models have them: FP8 in blocks of 128 by 128, GPTQ and AWQ in groups of 128.
constexpr uint32_t kGroupCols = 128;
constexpr uint32_t kBlockRows = 128;

// Copies of one matrix, end to end in the arena; one only for kCache.
class MatrixRing {
 public:
  MatrixRing(const BenchProducts& products, BenchArena& arena) {
    const RandomMatrix random(products.format, products.rows, products.cols, Numbers::kModest,
                              /*seed=*/1, ScaleFormat::kF32, kGroupCols);
    MatrixView matrix = random.view();
    matrix.block_rows = kBlockRows;
    matrix.scales = matrix.scales.first(scales_bytes(matrix));
    size_t stride = 0;
    for (const auto part : {matrix.data, matrix.scales, matrix.zeros}) {
      stride += round_up(part.size(), kCacheLineBytes);
    }
    const size_t n = products.memory == BenchMemory::kCache
                         ? 1
                         : std::max<size_t>(1, arena.ring_bytes() / stride);
    std::span<std::byte> free = arena.take(products.memory, n * stride);
    const auto copied = [&](std::span<const std::byte> from) {
      std::ranges::copy(from, free.begin());
      const std::span<const std::byte> to = free.first(from.size());
      free = free.subspan(round_up(from.size(), kCacheLineBytes));
      return to;
    };
    std::optional<InterleavedCopy> interleaved;
    if (products.layout == Layout::kInterleaved) {
      interleaved.emplace(matrix);
      matrix = interleaved->view();
    }
    for (size_t i = 0; i < n; ++i) {
      MatrixView& copy = all_.emplace_back(matrix);
      copy.data = copied(matrix.data);
      copy.scales = copied(matrix.scales);
      copy.zeros = copied(matrix.zeros);
    }
  }

  const MatrixView& at(size_t i) const { return all_[i % all_.size()]; }

 private:
  std::vector<MatrixView> all_;
};

class ProductsRun {
 public:
  ProductsRun(const BenchProducts& products, BenchArena& arena)
      : of_(products),
        ring_(products, arena),
        n_rows_(std::accumulate(of_.tokens_of.begin(), of_.tokens_of.end(), int64_t{0})),
        tokens_(random_floats<AlignedVector<float>>(n_rows_ * of_.cols, 1)),
        results_(static_cast<size_t>(n_rows_ * of_.rows)),
        activations_(of_.precision == Precision::kFast ? n_inputs() : 0) {
    int64_t row = 0;
    for (const int64_t n : of_.tokens_of) {
      x_.push_back(
          {tokens_.data() + (of_.share_input ? 0 : row) * of_.cols, n, of_.cols, of_.cols});
      y_.push_back({results_.data() + row * of_.rows, n, of_.rows, of_.rows});
      row += n;
    }
  }

  void run(Pool& pool) {
    prepare_activations(pool);
    const int64_t chunk = std::min(
        of_.rows, chunk_rows(of_.rows * static_cast<int64_t>(n_matrices()), pool.n_workers()));
    const int64_t chunks_each = ceil_div(of_.rows, chunk);
    pool.parallel_for_shares(chunks_each * static_cast<int64_t>(n_matrices()), 1,
                             [&](Range range, int) {
                               for (int64_t i = range.begin; i < range.end; ++i) {
                                 const int64_t begin = i % chunks_each * chunk;
                                 multiply(static_cast<size_t>(i / chunks_each),
                                          {begin, std::min(begin + chunk, of_.rows)});
                               }
                             });
    next_ += n_matrices();
  }

  // As near as numbers of this kind come (the tests have derived bounds); bit by bit in `exact`.
  void check(Pool& pool) {
    const size_t first = next_;
    run(pool);
    for (const size_t job : {size_t{0}, n_matrices() - 1}) {
      const Range rows = {0, std::min<int64_t>(of_.rows, 9)};
      const int64_t n_tokens = std::min<int64_t>(y_[job].n_rows, 8);
      std::vector<float> reference(static_cast<size_t>(n_tokens * of_.rows));
      const auto expected = dense_rows(reference.data(), n_tokens, of_.rows);
      multiply_reference(ring_.at(first + job), job, rows, expected);
      const float bound = of_.precision == Precision::kFast ? 1e-2F : 0.0F;
      for (int64_t t = 0; t < n_tokens; ++t) {
        for (int64_t n = rows.begin; n < rows.end; ++n) {
          const float right = expected.row(t)[n];
          PENSTOCK_CHECK(std::abs(y_[job].row(t)[n] - right) <= bound * (1.0F + std::abs(right)),
                         "a wrong answer is not timed");
        }
      }
    }
  }

 private:
  size_t n_matrices() const { return of_.tokens_of.size(); }
  size_t n_inputs() const { return of_.share_input ? 1 : n_matrices(); }
  const FastActivations& activations(size_t job) const {
    return activations_[of_.share_input ? 0 : job];
  }

  void prepare_activations(Pool& pool) {
    const bool integer = has_integer_kernel(of_.isa, ring_.at(0));
    for (size_t i = 0; i < activations_.size(); ++i) {
      activations_[i].begin(of_.isa, x_[i], of_.generated ? x_[i].n_rows : 0, integer);
    }
    share_rows(pool, static_cast<int64_t>(activations_.size()), of_.cols * kConversion,
               [&](Range range) {
                 for (int64_t i = range.begin; i < range.end; ++i) {
                   FastActivations& each = activations_[static_cast<size_t>(i)];
                   each.prepare({0, each.n_parts()});
                 }
               });
  }

  void multiply(size_t job, Range rows) {
    const MatrixView& w = ring_.at(next_ + job);
    if (of_.precision == Precision::kFast) {
      matmul_fast(of_.isa, w, rows, activations(job), y_[job]);
    } else {
      matmul_exact(of_.isa, w, rows, x_[job], y_[job]);
    }
  }

  // Of the first y.n_rows tokens.
  void multiply_reference(const MatrixView& w, size_t job, Range rows, Rows<float> y) const {
    Rows<const float> x = x_[job];
    x.n_rows = y.n_rows;
    if (of_.precision == Precision::kExact) {
      matmul_exact_ref(w, rows, x, y);
    } else if (of_.generated) {
      Int16Rows codes;
      codes.resize(x.n_rows, x.cols);
      codes.quantise(Isa::kScalar, x, {0, x.n_rows});
      matmul_integer_ref(w, rows, codes, y);
    } else {
      matmul_bf16_ref(w, rows, x, y);
    }
  }

  BenchProducts of_;
  MatrixRing ring_;
  int64_t n_rows_;
  AlignedVector<float> tokens_, results_;
  std::vector<Rows<const float>> x_;  // of each matrix
  std::vector<Rows<float>> y_;
  std::vector<FastActivations> activations_;
  size_t next_ = 0;  // matrix of the ring
};

BenchWork work_of(const BenchProducts& of) {
  const MatrixView shape = {.format = of.format,
                            .rows = of.rows,
                            .cols = of.cols,
                            .group_cols = kGroupCols,
                            .block_rows = kBlockRows};
  const auto n_matrices = static_cast<double>(of.tokens_of.size());
  const double weights =
      static_cast<double>(*data_bytes(of.format, of.rows, of.cols) + scales_bytes(shape));
  const auto n_rows =
      static_cast<double>(std::accumulate(of.tokens_of.begin(), of.tokens_of.end(), int64_t{0}));
  const double n_inputs = of.share_input ? n_rows / n_matrices : n_rows;
  const auto rows = static_cast<double>(of.rows), cols = static_cast<double>(of.cols);
  const Arithmetic arithmetic = of.precision == Precision::kExact ? Arithmetic::kFloat32
                                : of.generated                    ? Arithmetic::kInt8
                                                                  : Arithmetic::kBf16Tiles;
  return {.bytes = n_matrices * weights + sizeof(float) * (n_inputs * cols + n_rows * rows),
          .operations = 2 * n_rows * rows * cols,
          .arithmetic = arithmetic};
}

}  // namespace

std::vector<ProductKind> product_kinds() {
  return {{Precision::kExact, Layout::kRows},
          {Precision::kFast, Layout::kRows},
          {Precision::kFast, Layout::kInterleaved}};
}

bool can_run(const BenchProducts& products) {
  const MatrixView shape = {.format = products.format,
                            .layout = products.layout,
                            .rows = products.rows,
                            .cols = products.cols};
  if (products.layout == Layout::kInterleaved && !has_interleaved_shape(shape)) return false;
  if (products.precision == Precision::kExact) return true;
  return products.generated ? has_integer_kernel(products.isa, shape) : products.isa == Isa::kAmx;
}

KernelBench products_bench(std::string_view operation, int64_t n_tokens,
                           const BenchProducts& products) {
  return {.operation = std::string(operation) + ' ' + std::string(to_string(products.precision)),
          .format = std::string(info(products.format).name) +
                    (products.layout == Layout::kInterleaved ? "x16" : ""),
          .memory = products.memory,
          .isa = products.isa,
          .n_tokens = n_tokens,
          .work = work_of(products),
          .prepare = [products](BenchArena& arena, Pool& pool) -> BenchRun {
            return checked_run<ProductsRun>(pool, products, arena);
          }};
}

std::vector<Format> native_formats() {
  return {Format::kBF16,  Format::kQ8_0,       Format::kQ4_0,    Format::kQ4_1,
          Format::kQ4_K,  Format::kQ6_K,       Format::kNvfp4,   Format::kNvfp4Block,
          Format::kMxfp4, Format::kMxfp4Block, Format::kFp8Block};
}

}  // namespace penstock
