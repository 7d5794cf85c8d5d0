#include "kernels/matmul/matmul_bf16_amx.h"

#include <immintrin.h>

#include <bit>

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
  for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(c + 16 * i);
  transpose(r);
  const __m512 scale = _mm512_set1_ps(p.scale);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (token + i >= p.n_tokens) break;
    _mm512_mask_storeu_ps(p.y + (token + i) * p.y_stride + row, rows,
                          _mm512_mul_ps(scale, _mm512_castsi512_ps(r[i])));
  }
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
  alignas(64) float c[4][256];
  const bool two = p.n_tokens > kTileTokens;
  const uint16_t* const x0 = p.x;
  const uint16_t* const x1 = p.x + (two ? p.n_col_tiles * kTileNumbers : 0);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t j = 0; j < p.n_col_tiles; ++j) {
    _tile_loadd(4, p.panel + j * 2 * kTileNumbers, kTileRowBytes);
    _tile_loadd(6, x0 + j * kTileNumbers, kTileRowBytes);
    _tile_loadd(5, p.panel + (2 * j + 1) * kTileNumbers, kTileRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    if (two) {
      _tile_loadd(7, x1 + j * kTileNumbers, kTileRowBytes);
      _tile_dpbf16ps(2, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c[0], kTileRowBytes);
  _tile_stored(1, c[1], kTileRowBytes);
  write_tile(c[0], p, 0, 0);
  write_tile(c[1], p, 16, 0);
  if (!two) return;
  _tile_stored(2, c[2], kTileRowBytes);
  _tile_stored(3, c[3], kTileRowBytes);
  write_tile(c[2], p, 0, kTileTokens);
  write_tile(c[3], p, 16, kTileTokens);
}

}  // namespace penstock
