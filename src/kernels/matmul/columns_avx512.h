// 16 rows of a matrix whose columns are stored one after another, a row to a lane of an AVX-512
// register. Only for files named *_avx512.cc. columns_avx2.h has the same names; int4_columns.h is
// written once for both.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/matmul/floats_avx512.h"
#include "kernels/transpose_avx512.h"

namespace penstock {
namespace {

using Ints = __m512i;
constexpr int64_t kVectorRows = 16;
constexpr int kFusedColumnTokens = 2;

// The rows that there are, of a vector that may end behind the matrix; at least eight.
struct VectorRows {
  __mmask16 rows;
  __mmask8 eights;

  [[gnu::always_inline]] explicit VectorRows(int64_t n)
      : rows(n < kVectorRows ? 0xFF : 0xFFFF), eights(n < kVectorRows ? 1 : 3) {}
};

[[gnu::always_inline]] inline Floats load_floats(const float* p) { return _mm512_loadu_ps(p); }
[[gnu::always_inline]] inline void store_floats(float* p, Floats v) { _mm512_storeu_ps(p, v); }
[[gnu::always_inline]] inline Floats load_halves(const uint8_t* p, VectorRows which) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(which.rows, p));
}
[[gnu::always_inline]] inline Ints load_words(const uint8_t* p, VectorRows which) {
  return _mm512_maskz_loadu_epi32(which.rows, p);
}
// The word of every eight rows in each of their lanes.
[[gnu::always_inline]] inline Ints load_words_of_eights(const uint8_t* p, VectorRows which) {
  const Ints from = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m128i words = _mm_maskz_loadu_epi32(which.eights, p);
  return _mm512_permutexvar_epi32(from, _mm512_castsi128_si512(words));
}
// One number for each row of eight.
[[gnu::always_inline]] inline Ints each_of_eight(int a, int b, int c, int d, int e, int f, int g,
                                                 int h) {
  return _mm512_setr_epi32(a, b, c, d, e, f, g, h, a, b, c, d, e, f, g, h);
}
template <int n>
[[gnu::always_inline]] inline Ints shift_right(Ints v) {
  return _mm512_srli_epi32(v, n);
}
[[gnu::always_inline]] inline Ints shift_right_by(Ints v, Ints counts) {
  return _mm512_srlv_epi32(v, counts);
}
// 2^23 + the low four bits: a float32 that needs no conversion.
[[gnu::always_inline]] inline Floats nibble_on_2_23(Ints v) {
  constexpr int kFirstAndSecondOrThird = 0xEA;
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      v, _mm512_set1_epi32(15), _mm512_set1_epi32(0x4B000000), kFirstAndSecondOrThird));
}

// Turns columns of kVectorRows rows into rows of as many columns.
[[gnu::always_inline]] inline void transpose_floats(Floats (&v)[kVectorRows]) {
  Ints bits[kVectorRows];
#pragma GCC unroll 16
  for (int i = 0; i < kVectorRows; ++i) bits[i] = _mm512_castps_si512(v[i]);
  transpose(bits);
#pragma GCC unroll 16
  for (int i = 0; i < kVectorRows; ++i) v[i] = _mm512_castsi512_ps(bits[i]);
}

}  // namespace
}  // namespace penstock
