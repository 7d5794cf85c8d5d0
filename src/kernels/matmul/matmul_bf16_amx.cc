#include "kernels/matmul/matmul_bf16_amx.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "kernels/matmul/bf16_rows_amx.h"
#include "kernels/matmul/prefetch_x86.h"
#include "kernels/transpose_avx512.h"

namespace penstock {
namespace {

constexpr int kTileRowBytes = 64;

[[gnu::always_inline]] inline __mmask16 first_lanes(int64_t n) {
  if (n <= 0) return 0;
  return static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1U << n) - 1);
}

// C[16 weight rows][16 tokens] to y[token][row].
[[gnu::always_inline]] inline void write_tile(const float* c, const AmxProduct& p, int64_t row,
                                              int64_t token) {
  const __mmask16 rows = first_lanes(p.n_rows - row);
  if (rows == 0) return;
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(c + int64_t{16} * i);
  transpose(r);
  const __m512 scale = _mm512_set1_ps(p.scale);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (token + i >= p.n_tokens) break;
    _mm512_mask_storeu_ps(p.y + (token + i) * p.y_stride + row, rows,
                          _mm512_mul_ps(scale, _mm512_castsi512_ps(r[i])));
  }
}

// Two tiles of weights times one or two of tokens: tiles 0 to 3 are the sums.
class TileProduct {
 public:
  [[gnu::always_inline]] explicit TileProduct(const AmxProduct& p)
      : p_(p),
        two_(p.n_tokens > kTileTokens),
        x1_(p.x + (two_ ? p.n_col_tiles * kTileNumbers : 0)) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  // `weights`: 32 rows of column tile j.
  [[gnu::always_inline]] void add(const uint16_t* weights, int64_t j) const {
    _tile_loadd(4, weights, kTileRowBytes);
    _tile_loadd(6, p_.x + j * kTileNumbers, kTileRowBytes);
    _tile_loadd(5, weights + kTileNumbers, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    if (!two_) return;
    _tile_loadd(7, x1_ + j * kTileNumbers, kTileRowBytes);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  void write() const {
    alignas(64) float c[4][256];
    _tile_stored(0, c[0], kTileRowBytes);
    _tile_stored(1, c[1], kTileRowBytes);
    write_tile(c[0], p_, 0, 0);
    write_tile(c[1], p_, 16, 0);
    if (!two_) return;
    _tile_stored(2, c[2], kTileRowBytes);
    _tile_stored(3, c[3], kTileRowBytes);
    write_tile(c[2], p_, 0, kTileTokens);
    write_tile(c[3], p_, 16, kTileTokens);
  }

 private:
  const AmxProduct& p_;
  const bool two_;
  const uint16_t* const x1_;
};

template <class Tiles>
void fill_and_multiply(const StoredRows& w, int64_t row, const AmxProduct& p, uint16_t* panel,
                       bool keep) {
  Tiles tiles(w, row, p.n_rows);
  // What nobody reads again goes round in the first cache level.
  constexpr int64_t kRound = 4;
  const int64_t mask = keep ? ~int64_t{0} : kRound - 1;
  const auto weights = [&](int64_t j) { return panel + (j & mask) * kAmxRows * kTileCols; };
  // A tile is not loaded from stores that are still on their way to the cache.
  constexpr int64_t kBehind = 2;
  const TileProduct product(p);
  const uint8_t* const next = w.data + static_cast<size_t>(row + kAmxRows) * w.row_bytes;
  Ahead ahead(next, next + kAmxRows * w.row_bytes, p.n_col_tiles);
  for (int64_t j = 0; j < p.n_col_tiles; ++j) {
    if (j >= kBehind) product.add(weights(j - kBehind), j - kBehind);
    ahead.ask();
    tiles.fill(j, weights(j));
  }
  for (int64_t j = std::max<int64_t>(0, p.n_col_tiles - kBehind); j < p.n_col_tiles; ++j) {
    product.add(weights(j), j);
  }
  product.write();
}

}  // namespace

void pack_tiles_amx(const float* x, int64_t x_stride, int64_t n_tokens, int64_t cols,
                    uint16_t* tiles) {
  for (int64_t k = 0; k < cols; k += kTileCols, tiles += kTileNumbers) {
    const __mmask16 low = first_lanes(cols - k);
    const __mmask16 high = first_lanes(cols - k - 16);
    __m512i r[16];
#pragma GCC unroll 16
    for (int64_t t = 0; t < kTileTokens; ++t) {
      if (t >= n_tokens) {
        r[t] = _mm512_setzero_si512();
        continue;
      }
      const float* const from = x + t * x_stride + k;
      r[t] = std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, from + 16),
                                                        _mm512_maskz_loadu_ps(low, from)));
    }
    transpose(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_si512(tiles + kTileCols * i, r[i]);
  }
}

void round_tile_amx(const float* tile, int64_t n_cols, uint16_t* panel, int64_t panel_stride) {
  constexpr int64_t kHalf = 16;
  for (int64_t k = 0; k < n_cols; k += kTileCols, tile += 8 * kHalf, panel += panel_stride) {
    const bool whole = n_cols - k > kHalf;
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const __m512 low = _mm512_load_ps(tile + kHalf * r);
      const __m512 high = whole ? _mm512_load_ps(tile + kHalf * (4 + r)) : _mm512_setzero_ps();
      _mm512_store_si512(panel + kTileCols * r,
                         std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    }
  }
}

void multiply_amx(const AmxProduct& p) {
  const TileProduct product(p);
  for (int64_t j = 0; j < p.n_col_tiles; ++j) product.add(p.panel + j * 2 * kTileNumbers, j);
  product.write();
}

namespace {

template <class Columns>
FillAndMultiply in_layout(Layout layout) {
  return layout == Layout::kRows ? fill_and_multiply<RowTiles<Columns>>
                                 : fill_and_multiply<InterleavedTiles<Columns>>;
}

}  // namespace

FillAndMultiply fill_and_multiply_amx(Format format, Layout layout) {
  switch (format) {
    case Format::kBF16:
      return fill_and_multiply<Bf16RowTiles>;
    case Format::kQ4_0:
      return in_layout<Q4_0Columns>(layout);
    case Format::kQ4_1:
      return in_layout<Q4_1Columns>(layout);
    case Format::kQ8_0:
      return in_layout<Q8_0Columns>(layout);
    case Format::kQ4_K:
      return in_layout<Q4_KColumns>(layout);
    case Format::kMxfp4Block:
      return in_layout<Mxfp4BlockColumns>(layout);
    case Format::kNvfp4Block:
      return in_layout<Nvfp4BlockColumns>(layout);
    case Format::kMxfp4:
      return in_layout<SplitFp4Columns<Format::kMxfp4>>(layout);
    case Format::kNvfp4:
      return in_layout<SplitFp4Columns<Format::kNvfp4>>(layout);
    default:
      return nullptr;
  }
}

}  // namespace penstock
