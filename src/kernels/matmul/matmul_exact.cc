// The exact product in blocks. A panel of weight rows is widened once and multiplied by all tokens,
// tile by tile: kTileRows rows at a time, as many tokens as the ISA's registers hold sums for. Few
// tokens skip the panel: their kernels widen in registers.
#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"
#include "base/integers.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_exact_kernels.h"
#include "kernels/matmul/row_copy.h"
#include "kernels/matmul/tile_filler.h"

namespace penstock {
namespace {

// Columns a tile takes at a time: its weights and its tokens' numbers share the first cache level.
// Lanes wait in `carry` between blocks of columns.
constexpr int64_t kBlockCols = 1024;
constexpr int64_t kColsStep = 256;  // blocks of columns end between groups of every format
// Rows up to kMostCols long are widened whole, as many together as the panel holds: each pass over
// the tokens, which may come from beyond the second cache level, is then used that often.
constexpr int64_t kMostCols = TileFiller::kMostCols;
constexpr int64_t kPanelFloats = int64_t{128} * 1024;
constexpr int64_t kMostPanelRows = 128;
// Longer rows are widened in blocks of columns, for this many tokens and rows at a time.
constexpr int64_t kCarryTokens = 96;
constexpr int64_t kCarryRows = 64;
static_assert(kMostCols * kTileRows <= kPanelFloats && kBlockCols * kCarryRows <= kPanelFloats);
static_assert(kMostTileTokens * kMostPanelRows <= kCarryTokens * kCarryRows);
// So are, for few tokens, matrices whose columns lie together: with as many rows as they like.
static_assert(kBlockCols * kMostColumnRows <= kPanelFloats);
static_assert(2 * kMostTileTokens * kMostColumnRows <= kCarryTokens * kCarryRows);
static_assert(kMostFusedTokens * kMostColumnRows <= kCarryTokens * kCarryRows);

// A thread's own working memory: 896 KiB, allocated when the thread first multiplies.
struct Scratch {
  alignas(64) std::array<float, kPanelFloats> panel;
  alignas(64) std::array<float, kCarryTokens * kCarryRows * kLaneCount> carry;
};

Scratch& scratch() {
  thread_local const auto memory = std::make_unique_for_overwrite<Scratch>();
  return *memory;
}

class Product {
 public:
  Product(const ExactKernels& kernels, const MatrixView& w, Rows<const float> x, Rows<float> y)
      : kernels_(kernels), w_(w), filler_(kernels, w), x_(x), y_(y) {}

  void multiply(Range rows) const {
    if (filler_.own() != nullptr && x_.n_rows <= kMostFusedTokens) {
      const auto i = static_cast<size_t>(x_.n_rows - 1);
      if (const auto kernel = filler_.own()->multiply_rows[i]) return multiply_fused(kernel, rows);
      if (const auto kernel = filler_.own()->multiply_columns[i]) {
        return multiply_fused(kernel, rows);
      }
    }
    for (Range panel = {rows.begin, 0}; panel.begin < rows.end; panel.begin = panel.end) {
      panel.end = std::min(panel_end(panel.begin), rows.end);
      if (in_blocks()) {
        for (int64_t t = 0; t < x_.n_rows; t += kCarryTokens) {
          multiply_long_panel(panel, {t, std::min(t + kCarryTokens, x_.n_rows)});
        }
      } else {
        multiply_panel(panel);
      }
    }
  }

 private:
  void multiply_fused(MultiplyRows kernel, Range rows) const {
    for (int64_t row = rows.begin; row < rows.end; row += kTileRows) {
      const Range tile = {row, std::min(row + kTileRows, rows.end)};
      kernel(filler_.stored(), row, x_.data, x_.stride, results(tile, {0, x_.n_rows}));
    }
  }

  void multiply_fused(MultiplyColumns kernel, Range rows) const {
    for (Range block = {rows.begin, 0}; block.begin < rows.end; block.begin = block.end) {
      block.end = std::min(column_block_end(block.begin), rows.end);
      kernel(filler_.stored_columns(), block.begin, x_.data, x_.stride, scratch().carry.data(),
             results(block, {0, x_.n_rows}));
    }
  }

  static int64_t column_block_end(int64_t row) { return round_up(row + 1, kMostColumnRows); }

  // Few tokens do not repay a panel that leaves the first cache level.
  bool few_tokens() const { return x_.n_rows <= int64_t{2} * kernels_.tile_tokens; }
  bool in_blocks() const { return w_.cols > kMostCols || (few_tokens() && filler_.by_columns()); }

  // Where the panel that begins at `row` ends.
  int64_t panel_end(int64_t row) const {
    if (few_tokens() && filler_.by_columns()) return column_block_end(row);
    if (in_blocks()) return row + kCarryRows;
    if (few_tokens()) return row + kTileRows;
    const int64_t rows = kPanelFloats / std::max<int64_t>(round_up(w_.cols, kLaneCount), 1);
    return row + std::min(rows / kTileRows * kTileRows, kMostPanelRows);
  }

  // Widens `rows` once; the lanes of one tile of tokens wait between blocks of columns.
  void multiply_panel(Range rows) const {
    const Range all = {0, w_.cols};
    filler_.fill_rows(rows, all, scratch().panel.data());
    for_each_tile({0, x_.n_rows}, [&](Range tokens) {
      for_each_block([&](Range cols) {
        const float* tiles = scratch().panel.data() + kTileRows * cols.begin;
        multiply_tiles(tiles, tile_floats(all), rows, cols, tokens, scratch().carry.data());
      });
    });
  }

  // Widens one block of columns of `rows` after the other; the lanes of all `tokens` wait.
  void multiply_long_panel(Range rows, Range tokens) const {
    for_each_block([&](Range cols) {
      filler_.fill_rows(rows, cols, scratch().panel.data());
      float* carry = scratch().carry.data();
      for_each_tile(tokens, [&](Range of_tile) {
        multiply_tiles(scratch().panel.data(), tile_floats(cols), rows, cols, of_tile, carry);
        carry += of_tile.size() * round_up(rows.size(), kTileRows) * kLaneCount;
      });
    });
  }

  // Blocks of like size, so that no short one is mostly loading and storing lanes.
  template <class F>
  void for_each_block(F f) const {
    const int64_t n_blocks = std::max<int64_t>(ceil_div(w_.cols, kBlockCols), 1);
    const int64_t step = round_up(ceil_div(w_.cols, n_blocks), kColsStep);
    for (int64_t k = 0; k < w_.cols; k += step) f(Range{k, std::min(k + step, w_.cols)});
  }

  // Tiles of like size: 8 tokens are 4 and 4, since small tiles load more than they multiply.
  template <class F>
  void for_each_tile(Range tokens, F f) const {
    const int64_t n_tiles = ceil_div(tokens.size(), kernels_.tile_tokens);
    for (int64_t i = 0; i < n_tiles; ++i) {
      f(Range{tokens.begin + tokens.size() * i / n_tiles,
              tokens.begin + tokens.size() * (i + 1) / n_tiles});
    }
  }

  static int64_t tile_floats(Range cols) { return kTileRows * round_up(cols.size(), kLaneCount); }

  // One tile of tokens by all `rows`, whose tiles are tile_stride floats apart.
  void multiply_tiles(const float* tile, int64_t tile_stride, Range rows, Range cols, Range tokens,
                      float* carry) const {
    const MultiplyTile kernel = kernels_.multiply_tile[tokens.size() - 1];
    for (int64_t row = rows.begin; row < rows.end; row += kTileRows) {
      kernel(tile, cols.size(), x_.row(tokens.begin) + cols.begin, x_.stride,
             {.lanes = carry, .first = cols.begin == 0, .last = cols.end == w_.cols},
             results({row, std::min(row + kTileRows, rows.end)}, tokens));
      tile += tile_stride;
      carry += tokens.size() * kTileRows * kLaneCount;
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
  const TileFiller filler_;
  const Rows<const float> x_;
  const Rows<float> y_;
};

void multiply(const ExactKernels& kernels, const MatrixView& w, Range rows, Rows<const float> x,
              Rows<float> y) {
  if (w.layout == Layout::kRows) return Product(kernels, w, x, y).multiply(rows);
  thread_local RowCopy copy;
  for (int64_t row = rows.begin; row < rows.end; row += kMostPanelRows) {
    const Range some = {row, std::min(row + kMostPanelRows, rows.end)};
    const MatrixView by_rows = copy.rows(w, some);
    Product(kernels, by_rows, x, {y.data + row, y.n_rows, by_rows.rows, y.stride})
        .multiply({0, by_rows.rows});
  }
}

}  // namespace

void matmul_exact(Isa isa, const MatrixView& w, Range rows, Rows<const float> x, Rows<float> y) {
  PENSTOCK_CHECK(is_whole(w) && w.cols > 0, "the matrix lacks bytes or columns");
  PENSTOCK_CHECK(rows.begin >= 0 && rows.end <= w.rows, "rows outside the matrix");
  PENSTOCK_CHECK(x.cols == w.cols && y.cols == w.rows && x.n_rows == y.n_rows, "shapes differ");
  switch (isa) {
    case Isa::kScalar:
      return matmul_exact_ref(w, rows, x, y);
    case Isa::kAvx2:
      return multiply(exact_kernels_avx2(), w, rows, x, y);
    case Isa::kAvx512:
    case Isa::kAmx:
      return multiply(exact_kernels_avx512(), w, rows, x, y);
  }
}

}  // namespace penstock
