// The bf16 product of prefill on AMX, in plain pointers.
#pragma once

#include "kernels/matmul/bf16_tiles.h"
#include "kernels/matmul/matmul_exact_kernels.h"

namespace penstock {

inline constexpr int64_t kAmxRows = 32;  // weight rows that are multiplied together

// Rounds tiles of [cols / 16][4 rows][16] f32 (see FillTile) to bf16 rows of AMX's A tiles: column
// tile j of row r goes to panel + j * panel_stride + r * 32. An odd half tile is filled up with 0.
void round_tile_amx(const float* tile, int64_t n_cols, uint16_t* panel, int64_t panel_stride);

// y[t, n] = scale * sum_k panel[n, k] x[t, k] for 32 rows of weights and one or two tiles of
// tokens: float32 sums, columns in ascending order as TDPBF16PS adds them.
struct AmxProduct {
  const uint16_t* panel = nullptr;  // [n_col_tiles][32 rows][32]
  const uint16_t* x = nullptr;      // a Bf16Tiles row of tiles; the next one follows it
  int64_t n_col_tiles = 0;
  float* y = nullptr;  // of the first token and row
  int64_t y_stride = 0;
  int64_t n_rows = kAmxRows;
  int64_t n_tokens = 0;  // at most 32
  float scale = 1.0F;
};
// Within a TileSession.
void multiply_amx(const AmxProduct& product);

// The same, and before that writes weight rows [row, row + n_rows) to `panel`; what it has for rows
// from n_rows on is of no account. Unpacking and tiles take turns, since the processor works on
// both at once. `keep`: the panel is whole afterwards, as multiply_amx wants it.
using FillAndMultiply = void (*)(const StoredRows& w, int64_t row, const AmxProduct& product,
                                 uint16_t* panel, bool keep);
// By format; null for those whose tiles go through TileFiller and round_tile_amx. An interleaved
// matrix' `row` begins a panel.
FillAndMultiply fill_and_multiply_amx(Format format, Layout layout);

}  // namespace penstock
