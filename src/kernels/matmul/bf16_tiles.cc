#include "kernels/matmul/bf16_tiles.h"

#include <algorithm>

#include "base/check.h"

namespace penstock {

void Bf16Tiles::resize(int64_t n_rows, int64_t cols) {
  n_rows_ = n_rows;
  cols_ = cols;
  tiles_.resize(static_cast<size_t>(n_token_tiles() * n_col_tiles() * kTileNumbers));
}

void Bf16Tiles::pack(Rows<const float> x, Range tiles) {
  PENSTOCK_CHECK(x.cols == cols_ && x.n_rows == n_rows_, "rows of another shape");
  for (int64_t i = tiles.begin; i < tiles.end; ++i) {
    const int64_t first = i * kTileTokens;
    pack_tiles_amx(x.row(first), x.stride, std::min(kTileTokens, n_rows_ - first), cols_,
                   tiles_.data() + static_cast<size_t>(i * n_col_tiles() * kTileNumbers));
  }
}

}  // namespace penstock
