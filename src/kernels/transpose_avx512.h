// A 16 x 16 transposition in registers. Only for files named *_avx512.cc or *_amx.cc.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace penstock {
namespace {

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
