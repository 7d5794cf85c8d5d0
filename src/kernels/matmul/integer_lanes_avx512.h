// 16 weight rows of the integer product, a row to a lane. Only for files named *_avx512.cc or
// *_amx.cc. The same names are in integer_lanes_avx2.h; integer_panels.h is written in them.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/matmul/row_starts.h"

namespace penstock {
namespace {

inline constexpr int kPanelRows = 16;
using Words = __m512i;
using Floats = __m512;
using PanelRows = RowStarts<kPanelRows>;

[[gnu::always_inline]] inline Words all_words(int32_t word) { return _mm512_set1_epi32(word); }
[[gnu::always_inline]] inline Words all_bytes(int byte) {
  return _mm512_set1_epi8(static_cast<char>(byte));
}
[[gnu::always_inline]] inline Floats all_floats(float number) { return _mm512_set1_ps(number); }

[[gnu::always_inline]] inline Words shift_left_16(Words words, int n) {
  return _mm512_slli_epi16(words, static_cast<unsigned>(n));
}
[[gnu::always_inline]] inline Words shift_right_16(Words words, int n) {
  return _mm512_srli_epi16(words, static_cast<unsigned>(n));
}
[[gnu::always_inline]] inline Words shift_left_32(Words words, int n) {
  return _mm512_slli_epi32(words, static_cast<unsigned>(n));
}
[[gnu::always_inline]] inline Words shift_right_32(Words words, int n) {
  return _mm512_srli_epi32(words, static_cast<unsigned>(n));
}
[[gnu::always_inline]] inline Words shift_right_signed_32(Words words, int n) {
  return _mm512_srai_epi32(words, static_cast<unsigned>(n));
}
[[gnu::always_inline]] inline Words add_words(Words a, Words b) { return _mm512_add_epi32(a, b); }

[[gnu::always_inline]] inline Words repeat_16(__m128i bytes) {
  return _mm512_broadcast_i32x4(bytes);
}
// In every 16 bytes, those of `bytes` that the lowest four bits of `places` name.
[[gnu::always_inline]] inline Words shuffle_16(Words bytes, Words places) {
  return _mm512_shuffle_epi8(bytes, places);
}

[[gnu::always_inline]] inline Floats to_floats(Words words) { return _mm512_cvtepi32_ps(words); }
// The f16 in the lower half of each word.
[[gnu::always_inline]] inline Floats low_halves(Words words) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}
[[gnu::always_inline]] inline Floats as_floats(Words bits) { return _mm512_castsi512_ps(bits); }
// `then` in the lanes where a == b.
[[gnu::always_inline]] inline Floats where_equal(Words a, Words b, Floats then, Floats otherwise) {
  return _mm512_mask_mov_ps(otherwise, _mm512_cmpeq_epi32_mask(a, b), then);
}
[[gnu::always_inline]] inline Floats fma_floats(Floats a, Floats b, Floats sum) {
  return _mm512_fmadd_ps(a, b, sum);
}

// The word at `offset` of each row.
[[gnu::always_inline]] inline Words row_words(const PanelRows& rows, int64_t offset) {
  const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i at = _mm512_mullo_epi32(count, all_words(static_cast<int>(rows.stride())));
  return _mm512_i32gather_epi32(at, rows.of(0) + offset, 1);
}

// The next kPanelRows words, f16 numbers, or bytes at p.
[[gnu::always_inline]] inline Words load_words(const uint8_t* p) { return _mm512_loadu_si512(p); }
[[gnu::always_inline]] inline Floats load_halves(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
[[gnu::always_inline]] inline Words load_bytes(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// The first n bytes at p, 0 behind them.
[[gnu::always_inline]] inline __m128i load_first_bytes(const uint8_t* p, int64_t n) {
  return _mm_maskz_loadu_epi8(static_cast<__mmask16>((1U << n) - 1), p);
}

// to[c]: word c of the 16 bytes that load(row) gives for each row.
template <class Load>
[[gnu::always_inline]] inline void transposed_words(Load load, Words* to) {
  __m512i fours[4];  // [i]: rows i, i + 4, i + 8, i + 12
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    __m512i four = _mm512_castsi128_si512(load(i));
    four = _mm512_inserti32x4(four, load(i + 4), 1);
    four = _mm512_inserti32x4(four, load(i + 8), 2);
    fours[i] = _mm512_inserti32x4(four, load(i + 12), 3);
  }
  const __m512i low_01 = _mm512_unpacklo_epi32(fours[0], fours[1]);
  const __m512i high_01 = _mm512_unpackhi_epi32(fours[0], fours[1]);
  const __m512i low_23 = _mm512_unpacklo_epi32(fours[2], fours[3]);
  const __m512i high_23 = _mm512_unpackhi_epi32(fours[2], fours[3]);
  to[0] = _mm512_unpacklo_epi64(low_01, low_23);
  to[1] = _mm512_unpackhi_epi64(low_01, low_23);
  to[2] = _mm512_unpacklo_epi64(high_01, high_23);
  to[3] = _mm512_unpackhi_epi64(high_01, high_23);
}

// Lanes [first, first + n) to to[first], to[first + 1] ...
[[gnu::always_inline]] inline void store_rows(float* to, int64_t first, int64_t n, Floats v) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(((1U << n) - 1) << first), v);
}

}  // namespace
}  // namespace penstock
