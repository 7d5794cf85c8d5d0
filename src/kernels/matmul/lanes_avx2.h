// The 16 lanes of the exact class as two AVX2 registers. Only for files named *_avx2.cc.
#pragma once

#include <immintrin.h>

#include "kernels/matmul/matmul_exact_kernels.h"

namespace penstock {
namespace {

// Lanes 0 to 7 and 8 to 15.
struct Lanes {
  __m256 low;
  __m256 high;
};
constexpr int kFusedTokens = 1;  // the sums of two would leave no registers to widen in
static_assert(kFusedTokens <= kMostFusedTokens);

[[gnu::always_inline]] inline Lanes zero_lanes() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
[[gnu::always_inline]] inline Lanes load_lanes(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
[[gnu::always_inline]] inline void store_lanes(float* p, const Lanes& v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
[[gnu::always_inline]] inline Lanes fma_lanes(const Lanes& x, const Lanes& w, const Lanes& sum) {
  return {_mm256_fmadd_ps(x.low, w.low, sum.low), _mm256_fmadd_ps(x.high, w.high, sum.high)};
}

// All ones in lanes [0, n) of the eight from `first` on.
[[gnu::always_inline]] inline __m256i lanes_below(int64_t n, int first) {
  const __m256i lane =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}
// The first n floats, +0 behind them.
[[gnu::always_inline]] inline Lanes load_first_lanes(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, lanes_below(n, 0)), _mm256_maskload_ps(p + 8, lanes_below(n, 8))};
}
// The first n lanes of w, -0 behind them.
[[gnu::always_inline]] inline Lanes keep_first_lanes(const Lanes& w, int64_t n) {
  const __m256 minus_zero = _mm256_set1_ps(-0.0F);
  return {_mm256_blendv_ps(minus_zero, w.low, _mm256_castsi256_ps(lanes_below(n, 0))),
          _mm256_blendv_ps(minus_zero, w.high, _mm256_castsi256_ps(lanes_below(n, 8)))};
}

// The sums of four registers of eight lanes: lanes 4 apart are added, then 2, then 1, each step
// packing two registers into one.
[[gnu::always_inline]] inline __m128 sum_eights(const __m256 (&r)[kTileRows]) {
  const auto fold_4 = [](__m256 a, __m256 b) __attribute__((always_inline)) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  };
  const __m256d ab = _mm256_castps_pd(fold_4(r[0], r[1]));
  const __m256d cd = _mm256_castps_pd(fold_4(r[2], r[3]));
  // [a a c c | b b d d]
  const __m256 pairs = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)),
                                     _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)));
  const __m256 sums = _mm256_add_ps(pairs, _mm256_movehdup_ps(pairs));  // even lanes
  const __m128 a_c = _mm256_castps256_ps128(sums);
  const __m128 b_d = _mm256_extractf128_ps(sums, 1);
  return _mm_blend_ps(a_c, _mm_moveldup_ps(b_d), 0b1010);  // a b c d
}

[[gnu::always_inline]] inline void write_sums(const TileResults& out, int token, __m128 sums) {
  const __m128 y = _mm_mul_ps(_mm_set1_ps(out.scale), sums);
  const __m128i rows = _mm_cmpgt_epi32(_mm_set1_epi32(out.n_rows), _mm_setr_epi32(0, 1, 2, 3));
  _mm_maskstore_ps(out.y + token * out.stride, rows, y);
}

// Sums the lanes of T tokens and kTileRows rows, lanes 8 apart first, and writes them.
template <int T>
[[gnu::always_inline]] inline void finish_tile(const Lanes (&acc)[T][kTileRows],
                                               const TileResults& out) {
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    __m256 eights[kTileRows];
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) eights[r] = _mm256_add_ps(acc[t][r].low, acc[t][r].high);
    write_sums(out, t, sum_eights(eights));
  }
}

}  // namespace
}  // namespace penstock
