#include "kernels/matmul/matmul_fast.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/integers.h"
#include "kernels/matmul/integer_kernels.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_bf16_amx.h"
#include "kernels/matmul/row_copy.h"
#include "kernels/matmul/tile_filler.h"
#include "kernels/tile_session.h"

namespace penstock {
namespace {

// Columns that are widened to float32 before they are rounded. A multiple of every format's group.
constexpr int64_t kWidenedCols = 256;

MultiplyIntegerRows integer_kernel(Isa isa, const MatrixView& w, int64_t n_tokens) {
  if (isa < Isa::kAvx2 || w.rows < kLeastIntegerRows) return nullptr;
  const bool tiles = isa == Isa::kAmx && n_tokens >= kLeastTileTokens;
  const IntegerKernels& kernels = tiles                 ? integer_kernels_amx()
                                  : isa >= Isa::kAvx512 ? integer_kernels_avx512()
                                  : has_avx_vnni()      ? integer_kernels_avxvnni()
                                                        : integer_kernels_avx2();
  return kernels.of(w.format, w.layout);
}

void multiply_integer(MultiplyIntegerRows kernel, const MatrixView& w, Range rows,
                      const Int16Rows& x, Rows<float> y) {
  thread_local std::vector<Int16Row> tokens;
  tokens.clear();
  for (int64_t t = 0; t < x.n_rows(); ++t) tokens.push_back(x.row(t));
  kernel(stored_rows(w), w.rows, rows, tokens.data(), x.n_rows(), w.scale, y.data, y.stride);
}

// Several panels of 32 weight rows are rounded to bf16 and stay in the second cache level while all
// tokens pass by, which may come from beyond it.
constexpr int64_t kPanelBytes = int64_t{768} * 1024;
constexpr int64_t kMostPanels = 8;
constexpr int64_t kPairTokens = 2 * kTileTokens;  // what multiply_amx takes

class AmxPanels {
 public:
  AmxPanels(const MatrixView& w, const Bf16Tiles& x, Rows<float> y)
      : w_(w), fill_and_multiply_(fill_and_multiply_amx(w.format, w.layout)), x_(x), y_(y) {}

  void multiply(Range rows) const {
    const int64_t n_panels = std::clamp(kPanelBytes / (panel_numbers() * int64_t{sizeof(uint16_t)}),
                                        int64_t{1}, kMostPanels);
    auto& panels = memory().panels;
    panels.resize(std::max(panels.size(), static_cast<size_t>(n_panels * panel_numbers())));
    const TileSession session;
    for (int64_t row = rows.begin; row < rows.end; row += n_panels * kAmxRows) {
      const Range group = {row, std::min(row + n_panels * kAmxRows, rows.end)};
      for_each_panel(group, [&](Range of_panel, uint16_t* panel) {
        fill_and_multiply(of_panel, panel, product(of_panel, panel, 0));
      });
      for (int64_t t = kPairTokens; t < x_.n_rows(); t += kPairTokens) {
        for_each_panel(group, [&](Range of_panel, const uint16_t* panel) {
          multiply_amx(product(of_panel, panel, t));
        });
      }
    }
  }

 private:
  // A thread's own.
  struct Memory {
    AlignedVector<float> tiles = AlignedVector<float>(kWidenedCols * kAmxRows);
    RowCopy copy;
    AlignedVector<uint16_t> panels;
  };
  static Memory& memory() {
    thread_local Memory memory;
    return memory;
  }

  // Panels that no other tokens wait for are never whole.
  void fill_and_multiply(Range rows, uint16_t* panel, const AmxProduct& first) const {
    if (fill_and_multiply_ == nullptr) {
      fill(rows, panel);
      multiply_amx(first);
    } else {
      fill_and_multiply_(stored_rows(w_), rows.begin, first, panel,
                         /*keep=*/x_.n_rows() > kPairTokens);
    }
  }

  int64_t panel_numbers() const { return x_.n_col_tiles() * kAmxRows * kTileCols; }

  template <class F>
  void for_each_panel(Range rows, F f) const {
    uint16_t* panel = memory().panels.data();
    for (int64_t row = rows.begin; row < rows.end; row += kAmxRows, panel += panel_numbers()) {
      f(Range{row, std::min(row + kAmxRows, rows.end)}, panel);
    }
  }

  void fill(Range rows, uint16_t* panel) const {
    if (w_.layout == Layout::kRows) return fill_from(w_, rows, panel);
    fill_from(memory().copy.rows(w_, rows), {0, rows.size()}, panel);
  }
  void fill_from(const MatrixView& w, Range rows, uint16_t* to) const {
    constexpr int64_t kColTileNumbers = kAmxRows * kTileCols;
    const TileFiller filler(exact_kernels_avx512(), w);
    for (int64_t k = 0; k < w.cols; k += kWidenedCols) {
      const Range cols = {k, std::min(k + kWidenedCols, w.cols)};
      const float* tile = memory().tiles.data();
      filler.fill_rows(rows, cols, memory().tiles.data());
      for (int64_t r = 0; r < rows.size(); r += kTileRows) {
        round_tile_amx(tile, cols.size(), to + k / kTileCols * kColTileNumbers + r * kTileCols,
                       kColTileNumbers);
        tile += kTileRows * round_up(cols.size(), kLaneCount);
      }
    }
  }

  AmxProduct product(Range rows, const uint16_t* panel, int64_t first_token) const {
    return {.panel = panel,
            .x = x_.token_tile(first_token / kTileTokens),
            .n_col_tiles = x_.n_col_tiles(),
            .y = y_.row(first_token) + rows.begin,
            .y_stride = y_.stride,
            .n_rows = rows.size(),
            .n_tokens = std::min(kPairTokens, x_.n_rows() - first_token),
            .scale = w_.scale};
  }

  const MatrixView& w_;
  const FillAndMultiply fill_and_multiply_;
  const Bf16Tiles& x_;
  const Rows<float> y_;
};

}  // namespace

void FastActivations::begin(Isa isa, Rows<const float> x, int64_t n_decode, bool integer) {
  PENSTOCK_CHECK(n_decode >= 0 && n_decode <= x.n_rows, "more decode rows than rows");
  isa_ = isa;
  x_ = x;
  n_decode_ = n_decode;
  codes_.resize(integer ? n_decode : 0, x.cols);
  if (uses_tiles()) tiles_.resize(x.n_rows - n_decode, x.cols);
}

void FastActivations::prepare(Range parts) {
  const int64_t n_codes = codes_.n_rows();
  const Range decode = {parts.begin, std::min(parts.end, n_codes)};
  if (decode.size() > 0) codes_.quantise(isa_, decode_rows(), decode);
  const Range tiles = {std::max(parts.begin - n_codes, int64_t{0}), parts.end - n_codes};
  if (uses_tiles() && tiles.size() > 0) tiles_.pack(prefill_rows(), tiles);
}

bool has_integer_kernel(Isa isa, const MatrixView& w) {
  return integer_kernel(isa, w, /*n_tokens=*/1) != nullptr;
}

void matmul_fast(Isa isa, const MatrixView& w, Range rows, const FastActivations& x,
                 Rows<float> y) {
  const Rows<const float> decode = x.decode_rows();
  const Rows<const float> prefill = x.prefill_rows();
  PENSTOCK_CHECK(is_whole(w) && w.cols > 0, "the matrix lacks bytes or columns");
  PENSTOCK_CHECK(rows.begin >= 0 && rows.end <= w.rows, "rows outside the matrix");
  PENSTOCK_CHECK(w.layout == Layout::kRows || rows.begin % kInterleavedRows == 0,
                 "rows begin within a panel");
  PENSTOCK_CHECK(
      decode.cols == w.cols && y.cols == w.rows && decode.n_rows + prefill.n_rows == y.n_rows,
      "shapes differ");
  const Rows<float> y_decode = {y.data, decode.n_rows, y.cols, y.stride};
  const Rows<float> y_prefill = {y.row(decode.n_rows), prefill.n_rows, y.cols, y.stride};
  if (decode.n_rows > 0) {
    if (const MultiplyIntegerRows kernel = integer_kernel(isa, w, decode.n_rows)) {
      PENSTOCK_CHECK(x.codes().n_rows() == decode.n_rows, "no codes were made for this matrix");
      multiply_integer(kernel, w, rows, x.codes(), y_decode);
    } else {
      matmul_exact(isa, w, rows, decode, y_decode);
    }
  }
  if (prefill.n_rows > 0) {
    if (isa == Isa::kAmx) {
      AmxPanels(w, x.tiles(), y_prefill).multiply(rows);
    } else {
      matmul_exact(isa, w, rows, prefill, y_prefill);
    }
  }
}

}  // namespace penstock
