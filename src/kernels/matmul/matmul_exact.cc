// The exact product in blocks. A panel of weight rows is widened once and multiplied by all tokens,
// tile by tile: kTileRows rows at a time, as many tokens as the ISA's registers hold sums for. Few
// tokens skip the panel: their kernels widen in registers.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_exact_kernels.h"
#include "tensor/codec.h"

namespace penstock {
namespace {

// A tile's columns of weights (32 KiB) and of its tokens share the first two cache levels.
constexpr int64_t kPanelCols = 2048;
constexpr int64_t kColsStep = 256;  // blocks of columns end between groups of every format
// Rows widened together: each pass over the tokens, which may come from beyond the second cache
// level, is then used this often.
constexpr int64_t kPanelRows = 32;
// Rows of longer matrices are finished for this many tokens before the next: their lanes wait in
// `carry` between blocks of columns.
constexpr int64_t kCarryTokens = 96;
constexpr int64_t kTileFloats = kPanelCols * kTileRows;

// A thread's own working memory: 448 KiB, fixed.
struct Scratch {
  alignas(64) std::array<float, kPanelRows * kPanelCols> panel;
  alignas(64) std::array<float, kCarryTokens * kPanelRows * kLaneCount> carry;
};

Scratch& scratch() {
  thread_local Scratch memory;
  return memory;
}

const uint8_t* bytes_of(std::span<const std::byte> span) {
  return reinterpret_cast<const uint8_t*>(span.data());
}

StoredRows stored_rows(const MatrixView& w) {
  StoredRows rows{.data = bytes_of(w.data), .cols = w.cols, .scale_format = w.scale_format};
  if (info(w.format).group_bytes != 0) rows.row_bytes = row_bytes(w.format, w.cols);
  if (!w.scales.empty()) rows.scales = bytes_of(w.scales);
  switch (w.format) {
    case Format::kFp8Block:
      rows.scale_rows = w.block_rows;
      rows.scale_cols = w.group_cols;
      rows.scales_per_row = (w.cols + w.group_cols - 1) / w.group_cols;
      break;
    case Format::kFp8Channel:
      rows.scale_cols = w.cols;
      rows.scales_per_row = 1;
      break;
    case Format::kFp8Tensor:
      rows.scales = nullptr;
      rows.scale_cols = w.cols;
      break;
    default:
      break;
  }
  return rows;
}

// Whether `kernels` can unpack w; the rest goes through tensor/codec.h.
bool has_own_kernels(const ExactKernels& kernels, const MatrixView& w) {
  if (kernels.formats[static_cast<size_t>(w.format)].fill == nullptr) return false;
  const bool one_scale_per_16 = w.group_cols % kLaneCount == 0 || w.group_cols >= w.cols;
  return w.format != Format::kFp8Block || one_scale_per_16;
}

// FillTile through the scalar codecs, for every format without an unpacker of its own.
void fill_tile_by_codec(const MatrixView& w, int64_t row, int n_rows, Range cols, float* tile) {
  std::array<float, kPanelCols> one_row;
  for (int r = 0; r < kTileRows; ++r) {
    const int64_t n_cols = cols.size();
    widen_columns(w, row + std::min(r, n_rows - 1), cols,
                  std::span(one_row).first(static_cast<size_t>(n_cols)));
    const int64_t whole_lanes = (n_cols + kLaneCount - 1) / kLaneCount * kLaneCount;
    std::fill(one_row.begin() + n_cols, one_row.begin() + whole_lanes, -0.0F);
    for (int64_t k = 0; k < whole_lanes; k += kLaneCount) {
      std::copy_n(one_row.begin() + k, kLaneCount, tile + k * kTileRows + r * kLaneCount);
    }
  }
}

class Product {
 public:
  Product(const ExactKernels& kernels, const MatrixView& w, Rows<const float> x, Rows<float> y)
      : kernels_(kernels),
        w_(w),
        stored_(stored_rows(w)),
        own_(has_own_kernels(kernels, w) ? &kernels.formats[static_cast<size_t>(w.format)]
                                         : nullptr),
        x_(x),
        y_(y) {}

  void multiply(Range rows) const {
    const bool fused = own_ != nullptr && x_.n_rows <= kernels_.fused_tokens;
    // A panel pays when tokens come again; before that, widened rows had better stay close.
    const int64_t step = fused || x_.n_rows <= 4 * kernels_.tile_tokens ? kTileRows : kPanelRows;
    const bool carries = w_.cols > kPanelCols;
    for (int64_t row = rows.begin; row < rows.end; row += step) {
      const Range panel = {row, std::min(row + step, rows.end)};
      if (fused) {
        const MultiplyRows kernel = own_->multiply_rows[x_.n_rows - 1];
        kernel(stored_, row, x_.data, x_.stride, results(panel, {0, x_.n_rows}));
      } else if (carries) {
        for (int64_t t = 0; t < x_.n_rows; t += kCarryTokens) {
          multiply_long_panel(panel, {t, std::min(t + kCarryTokens, x_.n_rows)});
        }
      } else {
        fill_panel(panel, {0, w_.cols});
        multiply_panel(panel, {0, w_.cols}, {0, x_.n_rows});
      }
    }
  }

 private:
  // A panel whose rows do not fit the scratch at once.
  void multiply_long_panel(Range rows, Range tokens) const {
    const int64_t n_blocks = (w_.cols + kPanelCols - 1) / kPanelCols;
    const int64_t even_share = (w_.cols + n_blocks - 1) / n_blocks;
    const int64_t step = (even_share + kColsStep - 1) / kColsStep * kColsStep;
    for (int64_t k = 0; k < w_.cols; k += step) {
      const Range cols = {k, std::min(k + step, w_.cols)};
      fill_panel(rows, cols);
      multiply_panel(rows, cols, tokens);
    }
  }

  void fill_panel(Range rows, Range cols) const {
    float* tile = scratch().panel.data();
    for (int64_t row = rows.begin; row < rows.end; row += kTileRows, tile += kTileFloats) {
      const int n_rows = static_cast<int>(std::min<int64_t>(kTileRows, rows.end - row));
      if (own_ != nullptr) {
        own_->fill(stored_, row, n_rows, cols.begin, cols.end, tile);
      } else {
        fill_tile_by_codec(w_, row, n_rows, cols, tile);
      }
    }
  }

  void multiply_panel(Range rows, Range cols, Range tokens) const {
    float* carry = scratch().carry.data();
    for (int64_t t = tokens.begin; t < tokens.end; t += kernels_.tile_tokens) {
      const int64_t n_tokens = std::min<int64_t>(kernels_.tile_tokens, tokens.end - t);
      const MultiplyTile kernel = kernels_.multiply_tile[n_tokens - 1];
      const float* tile = scratch().panel.data();
      for (int64_t row = rows.begin; row < rows.end; row += kTileRows) {
        const Range tile_rows = {row, std::min(row + kTileRows, rows.end)};
        kernel(tile, cols.size(), x_.row(t) + cols.begin, x_.stride,
               {.lanes = carry, .first = cols.begin == 0, .last = cols.end == w_.cols},
               results(tile_rows, {t, t + n_tokens}));
        tile += kTileFloats;
        if (w_.cols > kPanelCols) carry += n_tokens * kTileRows * kLaneCount;
      }
    }
  }

  TileResults results(Range rows, Range tokens) const {
    return {.y = y_.row(tokens.begin) + rows.begin,
            .stride = y_.stride,
            .n_rows = static_cast<int>(rows.size()),
            .scale = w_.scale};
  }

  const ExactKernels& kernels_;
  const MatrixView& w_;
  const StoredRows stored_;
  const FormatKernels* own_;
  const Rows<const float> x_;
  const Rows<float> y_;
};

}  // namespace

void matmul_exact(Isa isa, const MatrixView& w, Range rows, Rows<const float> x, Rows<float> y) {
  PENSTOCK_CHECK(is_whole(w), "the matrix lacks bytes");
  PENSTOCK_CHECK(rows.begin >= 0 && rows.end <= w.rows, "rows outside the matrix");
  PENSTOCK_CHECK(x.cols == w.cols && y.cols == w.rows && x.n_rows == y.n_rows, "shapes differ");
  switch (isa) {
    case Isa::kScalar:
      return matmul_exact_ref(w, rows, x, y);
    case Isa::kAvx2:
      return Product(exact_kernels_avx2(), w, x, y).multiply(rows);
    case Isa::kAvx512:
      return Product(exact_kernels_avx512(), w, x, y).multiply(rows);
  }
}

}  // namespace penstock
