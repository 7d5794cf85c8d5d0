// Eight rows of a matrix whose columns are stored one after another, a row to a lane of an AVX2
// register. Only for files named *_avx2.cc. columns_avx512.h has the same names; int4_columns.h is
// written once for both.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/matmul/floats_avx2.h"

namespace penstock {
namespace {

using Ints = __m256i;
constexpr int64_t kVectorRows = 8;
constexpr int kFusedColumnTokens = 1;  // the lanes of two would not leave a register

// The rows that there are: all, since there are eight to a word.
struct VectorRows {
  explicit VectorRows(int64_t) {}
};

[[gnu::always_inline]] inline Floats load_floats(const float* p) { return _mm256_loadu_ps(p); }
[[gnu::always_inline]] inline void store_floats(float* p, Floats v) { _mm256_storeu_ps(p, v); }
[[gnu::always_inline]] inline Floats load_halves(const uint8_t* p, VectorRows) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
[[gnu::always_inline]] inline Ints load_words(const uint8_t* p, VectorRows) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
// The word of every eight rows in each of their lanes.
[[gnu::always_inline]] inline Ints load_words_of_eights(const uint8_t* p, VectorRows) {
  int word;
  std::memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}
// One number for each row of eight.
[[gnu::always_inline]] inline Ints each_of_eight(int a, int b, int c, int d, int e, int f, int g,
                                                 int h) {
  return _mm256_setr_epi32(a, b, c, d, e, f, g, h);
}
template <int n>
[[gnu::always_inline]] inline Ints shift_right(Ints v) {
  return _mm256_srli_epi32(v, n);
}
[[gnu::always_inline]] inline Ints shift_right_by(Ints v, Ints counts) {
  return _mm256_srlv_epi32(v, counts);
}
// 2^23 + the low four bits: a float32 that needs no conversion.
[[gnu::always_inline]] inline Floats nibble_on_2_23(Ints v) {
  return _mm256_castsi256_ps(
      _mm256_or_si256(_mm256_and_si256(v, _mm256_set1_epi32(15)), _mm256_set1_epi32(0x4B000000)));
}

// Turns columns of kVectorRows rows into rows of as many columns: first within each 128 bits, then
// across them.
[[gnu::always_inline]] inline void transpose_floats(Floats (&v)[kVectorRows]) {
  Floats fours[kVectorRows];  // [c] and [4 + c]: row c of each 128 bits, columns 0 to 3 and 4 to 7
#pragma GCC unroll 2
  for (int i = 0; i < kVectorRows; i += 4) {
    const __m256 low_01 = _mm256_unpacklo_ps(v[i], v[i + 1]);
    const __m256 high_01 = _mm256_unpackhi_ps(v[i], v[i + 1]);
    const __m256 low_23 = _mm256_unpacklo_ps(v[i + 2], v[i + 3]);
    const __m256 high_23 = _mm256_unpackhi_ps(v[i + 2], v[i + 3]);
    fours[i] = _mm256_shuffle_ps(low_01, low_23, 0x44);
    fours[i + 1] = _mm256_shuffle_ps(low_01, low_23, 0xEE);
    fours[i + 2] = _mm256_shuffle_ps(high_01, high_23, 0x44);
    fours[i + 3] = _mm256_shuffle_ps(high_01, high_23, 0xEE);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    v[c] = _mm256_permute2f128_ps(fours[c], fours[4 + c], 0x20);
    v[4 + c] = _mm256_permute2f128_ps(fours[c], fours[4 + c], 0x31);
  }
}

}  // namespace
}  // namespace penstock
