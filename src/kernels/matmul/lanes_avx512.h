// The 16 lanes of the exact class as one AVX-512 register. Only for files named *_avx512.cc.
#pragma once

#include <immintrin.h>

#include "kernels/matmul/matmul_exact_kernels.h"

namespace penstock {
namespace {

using Lanes = __m512;
constexpr int kFusedTokens = 4;
static_assert(kFusedTokens <= kMostFusedTokens);

[[gnu::always_inline]] inline Lanes zero_lanes() { return _mm512_setzero_ps(); }
[[gnu::always_inline]] inline Lanes load_lanes(const float* p) { return _mm512_loadu_ps(p); }
[[gnu::always_inline]] inline void store_lanes(float* p, Lanes v) { _mm512_storeu_ps(p, v); }
[[gnu::always_inline]] inline Lanes fma_lanes(Lanes x, Lanes w, Lanes sum) {
  return _mm512_fmadd_ps(x, w, sum);
}

[[gnu::always_inline]] inline __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>((1u << n) - 1);
}
// The first n floats, +0 behind them.
[[gnu::always_inline]] inline Lanes load_first_lanes(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
// The first n lanes of w, -0 behind them.
[[gnu::always_inline]] inline Lanes keep_first_lanes(Lanes w, int64_t n) {
  return _mm512_mask_mov_ps(_mm512_set1_ps(-0.0F), first_lanes(n), w);
}

// The sums below add lanes 8 apart, then 4, 2 and 1, for several registers at once: each step
// halves what is left of every register and packs two registers into one. "Quad" is four
// neighbouring lanes.

// Quad i of the result holds what steps 8 and 4 leave of register i.
[[gnu::always_inline]] inline __m512 fold_to_quads(__m512 a, __m512 b, __m512 c, __m512 d) {
  constexpr __mmask8 kUpper = 0xF0;
  constexpr int kSwapHalves = 0x4E;
  // [a.lower | b.upper] + [a.upper | b.lower]: a's lanes are summed below, b's above.
  const auto fold = [](__m512 low, __m512 high) __attribute__((always_inline)) {
    const __m512 straight =
        _mm512_castpd_ps(_mm512_mask_mov_pd(_mm512_castps_pd(low), kUpper, _mm512_castps_pd(high)));
    return _mm512_add_ps(straight, _mm512_shuffle_f32x4(low, high, kSwapHalves));
  };
  const __m512 ab = fold(a, b);
  const __m512 cd = fold(c, d);
  constexpr int kEvenQuads = 0x88;
  constexpr int kOddQuads = 0xDD;
  return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, kEvenQuads),
                       _mm512_shuffle_f32x4(ab, cd, kOddQuads));
}

// Lane j of every quad of the result is the sum of that quad of the j-th argument.
[[gnu::always_inline]] inline __m512 sum_quads(__m512 a, __m512 b, __m512 c, __m512 d) {
  const auto fold = [](__m512 low, __m512 high) __attribute__((always_inline)) {
    const __m512d l = _mm512_castps_pd(low);
    const __m512d h = _mm512_castps_pd(high);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(l, h)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(l, h)));
  };
  const __m512 ab = fold(a, b);
  const __m512 cd = fold(c, d);
  constexpr int kEven = 0x88;
  constexpr int kOdd = 0xDD;
  return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, kEven), _mm512_shuffle_ps(ab, cd, kOdd));
}

// The sums of four registers.
[[gnu::always_inline]] inline __m128 sum_lanes(const __m512 (&r)[kTileRows]) {
  const __m512 quads = fold_to_quads(r[0], r[1], r[2], r[3]);
  constexpr int kSwapPairs = 0x4E;
  constexpr int kSwapNeighbours = 0xB1;
  const __m512 pairs = _mm512_add_ps(quads, _mm512_permute_ps(quads, kSwapPairs));
  const __m512 sums = _mm512_add_ps(pairs, _mm512_permute_ps(pairs, kSwapNeighbours));
  const __m512i first_of_quads = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(first_of_quads, sums));
}

[[gnu::always_inline]] inline void write_sums(const TileResults& out, int token, __m128 sums) {
  const auto rows = static_cast<__mmask8>((1u << out.n_rows) - 1);
  _mm_mask_storeu_ps(out.y + token * out.stride, rows, _mm_mul_ps(_mm_set1_ps(out.scale), sums));
}

// Sums the lanes of T tokens and kTileRows rows and writes them.
template <int T>
[[gnu::always_inline]] inline void finish_tile(const Lanes (&acc)[T][kTileRows],
                                               const TileResults& out) {
  if constexpr (T == 1) {
    write_sums(out, 0, sum_lanes(acc[0]));
    return;
  }
  const auto lanes = [&](int t, int r) __attribute__((always_inline)) {
    return t < T ? acc[t < T ? t : 0][r] : _mm512_setzero_ps();
  };
#pragma GCC unroll 2
  for (int t = 0; t < T; t += 4) {
    __m512 quads[kTileRows];  // of one row: quad i belongs to token t + i
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      quads[r] = fold_to_quads(lanes(t, r), lanes(t + 1, r), lanes(t + 2, r), lanes(t + 3, r));
    }
    const __m512 sums = sum_quads(quads[0], quads[1], quads[2], quads[3]);
    write_sums(out, t, _mm512_extractf32x4_ps(sums, 0));
    if (t + 1 < T) write_sums(out, t + 1, _mm512_extractf32x4_ps(sums, 1));
    if (t + 2 < T) write_sums(out, t + 2, _mm512_extractf32x4_ps(sums, 2));
    if (t + 3 < T) write_sums(out, t + 3, _mm512_extractf32x4_ps(sums, 3));
  }
}

}  // namespace
}  // namespace penstock
