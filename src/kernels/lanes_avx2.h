// The 16 virtual lanes of the exact class as two AVX2 registers. Only for files named *_avx2.cc:
// everything is in an anonymous namespace, so that no other file can share the code.
// kernels/lanes_avx512.h has the same names; files *_lanes.h are written once for both.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/exp.h"

namespace penstock {
namespace {

struct Lanes {
  __m256 low;   // lanes 0 to 7
  __m256 high;  // lanes 8 to 15
};
inline constexpr int64_t kLanes = 16;

// All bits set in lanes [0, n) of eight; n may lie outside [0, 8].
inline __m256i first_n(int64_t n) {
  const __m256i iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), iota);
}

inline Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Lanes all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Lanes a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
// The first n lanes, 0 < n <= 16: the rest is +0 when loaded and left alone when stored.
inline Lanes load_first(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, first_n(n)), _mm256_maskload_ps(p + 8, first_n(n - 8))};
}
inline void store_first(float* p, int64_t n, Lanes a) {
  _mm256_maskstore_ps(p, first_n(n), a.low);
  _mm256_maskstore_ps(p + 8, first_n(n - 8), a.high);
}

inline Lanes operator+(Lanes a, Lanes b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Lanes operator-(Lanes a, Lanes b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Lanes operator*(Lanes a, Lanes b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Lanes operator/(Lanes a, Lanes b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Lanes negate(Lanes a) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
}
// a > b ? a : b: where one is NaN, b.
inline Lanes larger(Lanes a, Lanes b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

// `a` in lanes [begin, end), `otherwise` in the rest.
inline Lanes keep(Lanes a, int64_t begin, int64_t end, Lanes otherwise) {
  const auto half = [&](__m256 kept, __m256 other, int64_t offset) {
    const __m256i mask = _mm256_andnot_si256(first_n(begin - offset), first_n(end - offset));
    return _mm256_blendv_ps(other, kept, _mm256_castsi256_ps(mask));
  };
  return {half(a.low, otherwise.low, 0), half(a.high, otherwise.high, 8)};
}

// Lanes i + 8 onto i, then i + 4, i + 2, i + 1.
inline float sum(Lanes a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// scores[i] = sum(a[i]) * scale, for all at once: the same additions, with two and four sums
// sharing a register as the lanes of each grow fewer.
inline constexpr int kSumsAtOnce = 4;
inline void store_scaled_sums(const Lanes a[kSumsAtOnce], float scale, float* scores) {
  __m256 four[2];  // [lanes of k | lanes of k + 1], k = 0, 2
  for (int64_t k = 0; k < 2; ++k) {
    const __m256 first = _mm256_add_ps(a[2 * k].low, a[2 * k].high);
    const __m256 second = _mm256_add_ps(a[2 * k + 1].low, a[2 * k + 1].high);
    four[k] = _mm256_add_ps(_mm256_permute2f128_ps(first, second, 0x20),
                            _mm256_permute2f128_ps(first, second, 0x31));
  }
  // [two lanes of 0, two of 2 | two of 1, two of 3]
  const __m256 two = _mm256_add_ps(_mm256_shuffle_ps(four[0], four[1], 0x44),
                                   _mm256_shuffle_ps(four[0], four[1], 0xEE));
  // [0, 2, ... | 1, 3, ...]
  const __m256 one =
      _mm256_add_ps(_mm256_shuffle_ps(two, two, 0x88), _mm256_shuffle_ps(two, two, 0xDD));
  const __m128 in_order =
      _mm_unpacklo_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1));
  _mm_storeu_ps(scores, _mm_mul_ps(in_order, _mm_set1_ps(scale)));
}

inline float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

inline float largest(Lanes a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline __m256 exp_of_eight(__m256 x) {
  using C = ExpConstants;
  const __m256 rounder = _mm256_set1_ps(C::kRounder);
  const __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(C::kLog2E), rounder);
  const __m256 n = _mm256_sub_ps(t, rounder);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-C::kLn2High), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-C::kLn2Low), r);
  __m256 p = _mm256_set1_ps(C::kTaylor[0]);
  for (int i = 1; i < 8; ++i) p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(C::kTaylor[i]));
  __m256 y = _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
  const __m256 high = _mm256_cmp_ps(x, _mm256_set1_ps(C::kHighest), _CMP_GT_OQ);
  const __m256 low = _mm256_cmp_ps(x, _mm256_set1_ps(C::kLowest), _CMP_LT_OQ);
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  y = _mm256_blendv_ps(y, _mm256_set1_ps(C::kInfinity), high);
  y = _mm256_andnot_ps(low, y);
  return _mm256_blendv_ps(y, x, nan);
}

// kernels/exp.h, step by step.
inline Lanes exp_lanes(Lanes x) { return {exp_of_eight(x.low), exp_of_eight(x.high)}; }

}  // namespace
}  // namespace penstock
