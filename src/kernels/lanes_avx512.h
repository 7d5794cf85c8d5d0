// The 16 virtual lanes of the exact class as one AVX-512 register. Only for files named
// *_avx512.cc: everything is in an anonymous namespace, so that no other file can share the code.
// kernels/lanes_avx2.h has the same names; files *_lanes.h are written once for both.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/exp.h"
#include "kernels/reduce_avx512.h"

namespace penstock {
namespace {

struct Lanes {
  __m512 v;
};
inline constexpr int64_t kLanes = 16;

inline __mmask16 first_n(int64_t n) { return static_cast<__mmask16>((1U << n) - 1U); }

inline Lanes zero() { return {_mm512_setzero_ps()}; }
inline Lanes all(float x) { return {_mm512_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Lanes a) { _mm512_storeu_ps(p, a.v); }
// The first n lanes, 0 < n <= 16: the rest is +0 when loaded and left alone when stored.
inline Lanes load_first(const float* p, int64_t n) {
  return {_mm512_maskz_loadu_ps(first_n(n), p)};
}
inline void store_first(float* p, int64_t n, Lanes a) { _mm512_mask_storeu_ps(p, first_n(n), a.v); }

inline Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Lanes negate(Lanes a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0F))}; }
// a > b ? a : b: where one is NaN, b.
inline Lanes larger(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }

// `a` in lanes [begin, end), `otherwise` in the rest.
inline Lanes keep(Lanes a, int64_t begin, int64_t end, Lanes otherwise) {
  const auto mask = static_cast<__mmask16>(first_n(end) & ~first_n(begin));
  return {_mm512_mask_blend_ps(mask, otherwise.v, a.v)};
}

// Lanes i + 8 onto i, then i + 4, i + 2, i + 1.
inline float sum(Lanes a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

inline float largest(Lanes a) { return _mm512_reduce_max_ps(a.v); }

// scores[i] = sum(a[i]) * scale, for all at once: the same additions.
inline constexpr int kSumsAtOnce = 16;
inline void store_scaled_sums(const Lanes a[kSumsAtOnce], float scale, float* scores) {
  __m512i words[kSumsAtOnce];
  for (int k = 0; k < kSumsAtOnce; ++k) words[k] = _mm512_castps_si512(a[k].v);
  const __m512i sums = reduce_each(words, [](__m512i x, __m512i y) {
    return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y)));
  });
  _mm512_storeu_ps(scores, _mm512_mul_ps(_mm512_castsi512_ps(sums), _mm512_set1_ps(scale)));
}

// kernels/exp.h, step by step.
inline Lanes exp_lanes(Lanes x) {
  using C = ExpConstants;
  const __m512 rounder = _mm512_set1_ps(C::kRounder);
  const __m512 t = _mm512_fmadd_ps(x.v, _mm512_set1_ps(C::kLog2E), rounder);
  const __m512 n = _mm512_sub_ps(t, rounder);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-C::kLn2High), x.v);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-C::kLn2Low), r);
  __m512 p = _mm512_set1_ps(C::kTaylor[0]);
  for (int i = 1; i < 8; ++i) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(C::kTaylor[i]));
  __m512 y = _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
  const __mmask16 high = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(C::kHighest), _CMP_GT_OQ);
  const __mmask16 low = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(C::kLowest), _CMP_LT_OQ);
  const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  y = _mm512_mask_blend_ps(high, y, _mm512_set1_ps(C::kInfinity));
  y = _mm512_mask_blend_ps(low, y, _mm512_setzero_ps());
  return {_mm512_mask_blend_ps(nan, y, x.v)};
}

}  // namespace
}  // namespace penstock
