// What attention_fast's AVX-512 and AMX files share beyond kernels/lanes_avx512.h.
#pragma once

#include "kernels/attention/exp2.h"
#include "kernels/lanes_avx512.h"

namespace penstock {
namespace {

// exp2.h, step by step.
inline Lanes exp2_lanes(Lanes x) {
  using C = Exp2Constants;
  const __m512 rounder = _mm512_set1_ps(C::kRounder);
  const __m512 t = _mm512_add_ps(x.v, rounder);
  const __m512 r = _mm512_sub_ps(x.v, _mm512_sub_ps(t, rounder));
  __m512 p = _mm512_set1_ps(C::kPolynomial[0]);
  for (int i = 1; i < 5; ++i) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(C::kPolynomial[i]));
  const __mmask16 not_low = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(C::kLowest), _CMP_NLT_UQ);
  return {_mm512_castsi512_ps(_mm512_maskz_add_epi32(
      not_low, _mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)))};
}

// Turns 16 rows of 16 words into its columns: first within each 128 bits, then across them.
inline void transpose(__m512i rows[16]) {
  __m512i pairs[16];  // of rows 4 i and 4 i + 1, or 4 i + 2 and 4 i + 3
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  __m512i fours[4][4];  // [c][i]: column c of each 128 bits, of rows 4 i to 4 i + 3
  for (int64_t i = 0; i < 4; ++i) {
    fours[0][i] = _mm512_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
    fours[1][i] = _mm512_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
    fours[2][i] = _mm512_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    fours[3][i] = _mm512_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
  }
  for (int c = 0; c < 4; ++c) {
    const __m512i low_01 = _mm512_shuffle_i32x4(fours[c][0], fours[c][1], 0x44);
    const __m512i high_01 = _mm512_shuffle_i32x4(fours[c][0], fours[c][1], 0xEE);
    const __m512i low_23 = _mm512_shuffle_i32x4(fours[c][2], fours[c][3], 0x44);
    const __m512i high_23 = _mm512_shuffle_i32x4(fours[c][2], fours[c][3], 0xEE);
    rows[c] = _mm512_shuffle_i32x4(low_01, low_23, 0x88);
    rows[4 + c] = _mm512_shuffle_i32x4(low_01, low_23, 0xDD);
    rows[8 + c] = _mm512_shuffle_i32x4(high_01, high_23, 0x88);
    rows[12 + c] = _mm512_shuffle_i32x4(high_01, high_23, 0xDD);
  }
}

}  // namespace
}  // namespace penstock
