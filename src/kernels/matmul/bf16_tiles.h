// Activations as the fast class multiplies them in prefill: bf16, in the order AMX's tiles want.
#pragma once

#include <cstdint>

#include "base/aligned.h"
#include "base/integers.h"
#include "tensor/rows.h"

namespace penstock {

inline constexpr int64_t kTileTokens = 16;
inline constexpr int64_t kTileCols = 32;
inline constexpr int64_t kTileNumbers = kTileTokens * kTileCols;  // 1 KiB of bf16

// Rounded to the nearest even. Tokens and columns that fill the last tiles up are 0.
class Bf16Tiles {
 public:
  // Forgets what it held.
  void resize(int64_t n_rows, int64_t cols);
  // The rows of tiles [tiles.begin, tiles.end). Needs AMX's machine (Isa::kAmx).
  void pack(Rows<const float> x, Range tiles);

  int64_t n_rows() const { return n_rows_; }
  int64_t cols() const { return cols_; }
  int64_t n_token_tiles() const { return ceil_div(n_rows_, kTileTokens); }
  int64_t n_col_tiles() const { return ceil_div(cols_, kTileCols); }
  // [n_col_tiles][16 pairs of columns][16 tokens][2]
  const uint16_t* token_tile(int64_t i) const {
    return tiles_.data() + static_cast<size_t>(i * n_col_tiles() * kTileNumbers);
  }

 private:
  int64_t n_rows_ = 0, cols_ = 0;
  AlignedVector<uint16_t> tiles_;
};

// Packs 16 tokens' columns [0, cols) into one row of tiles; rows from n_tokens on are 0.
void pack_tiles_amx(const float* x, int64_t x_stride, int64_t n_tokens, int64_t cols,
                    uint16_t* tiles);

}  // namespace penstock
