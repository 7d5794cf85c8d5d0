// 8 weight rows of the integer product, a row to a lane. Only for files named *_avx2.cc and
// *_avxvnni.cc. The same names are in integer_lanes_avx512.h; integer_panels.h is written in them.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/matmul/row_starts.h"

namespace penstock {
namespace {

inline constexpr int kPanelRows = 8;
using Words = __m256i;
using Floats = __m256;
using PanelRows = RowStarts<kPanelRows>;

[[gnu::always_inline]] inline Words all_words(int32_t word) { return _mm256_set1_epi32(word); }
[[gnu::always_inline]] inline Words all_bytes(int byte) {
  return _mm256_set1_epi8(static_cast<char>(byte));
}
[[gnu::always_inline]] inline Floats all_floats(float number) { return _mm256_set1_ps(number); }

[[gnu::always_inline]] inline Words shift_left_16(Words words, int n) {
  return _mm256_slli_epi16(words, n);
}
[[gnu::always_inline]] inline Words shift_right_16(Words words, int n) {
  return _mm256_srli_epi16(words, n);
}
[[gnu::always_inline]] inline Words shift_left_32(Words words, int n) {
  return _mm256_slli_epi32(words, n);
}
[[gnu::always_inline]] inline Words shift_right_32(Words words, int n) {
  return _mm256_srli_epi32(words, n);
}
[[gnu::always_inline]] inline Words shift_right_signed_32(Words words, int n) {
  return _mm256_srai_epi32(words, n);
}
[[gnu::always_inline]] inline Words add_words(Words a, Words b) { return _mm256_add_epi32(a, b); }

[[gnu::always_inline]] inline Words repeat_16(__m128i bytes) {
  return _mm256_broadcastsi128_si256(bytes);
}
// In every 16 bytes, those of `bytes` that the lowest four bits of `places` name.
[[gnu::always_inline]] inline Words shuffle_16(Words bytes, Words places) {
  return _mm256_shuffle_epi8(bytes, places);
}

[[gnu::always_inline]] inline Floats to_floats(Words words) { return _mm256_cvtepi32_ps(words); }
// The f16 in the lower half of each word.
[[gnu::always_inline]] inline Floats low_halves(Words words) {
  const __m128i places = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13);
  const __m256i twice = _mm256_permute4x64_epi64(shuffle_16(words, repeat_16(places)), 0b1000);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(twice));
}
[[gnu::always_inline]] inline Floats as_floats(Words bits) { return _mm256_castsi256_ps(bits); }
// `then` in the lanes where a == b.
[[gnu::always_inline]] inline Floats where_equal(Words a, Words b, Floats then, Floats otherwise) {
  return _mm256_blendv_ps(otherwise, then, as_floats(_mm256_cmpeq_epi32(a, b)));
}
[[gnu::always_inline]] inline Floats fma_floats(Floats a, Floats b, Floats sum) {
  return _mm256_fmadd_ps(a, b, sum);
}

// The word at `offset` of each row. Not by gathering, which AMD's processors and Intel's with
// their microcode of 2023 do word by word; broadcasts and blends take no shuffle.
[[gnu::always_inline]] inline Words row_words(const PanelRows& rows, int64_t offset) {
  const auto word = [&](int row) __attribute__((always_inline)) {
    int32_t bits;
    std::memcpy(&bits, rows.of(row) + offset, sizeof bits);
    return all_words(bits);
  };
  const __m256i at_01 = _mm256_blend_epi32(word(0), word(1), 0b10);
  const __m256i at_23 = _mm256_blend_epi32(word(2), word(3), 0b1000);
  const __m256i at_45 = _mm256_blend_epi32(word(4), word(5), 0b100000);
  const __m256i at_67 = _mm256_blend_epi32(word(6), word(7), 0b10000000);
  return _mm256_blend_epi32(_mm256_blend_epi32(at_01, at_23, 0b1100),
                            _mm256_blend_epi32(at_45, at_67, 0b11000000), 0b11110000);
}

// The next kPanelRows words, f16 numbers, or bytes at p.
[[gnu::always_inline]] inline Words load_words(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
[[gnu::always_inline]] inline Floats load_halves(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
[[gnu::always_inline]] inline Words load_bytes(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

// The first n bytes at p, 0 behind them.
[[gnu::always_inline]] inline __m128i load_first_bytes(const uint8_t* p, int64_t n) {
  alignas(16) uint8_t bytes[16] = {};
  std::memcpy(bytes, p, static_cast<size_t>(n));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
}

// to[c]: word c of the 16 bytes that load(row) gives for each row.
template <class Load>
[[gnu::always_inline]] inline void transposed_words(Load load, Words* to) {
  __m256i pairs[4];  // [i]: rows i, i + 4
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load(i)), load(i + 4), 1);
  }
  const __m256i low_01 = _mm256_unpacklo_epi32(pairs[0], pairs[1]);
  const __m256i high_01 = _mm256_unpackhi_epi32(pairs[0], pairs[1]);
  const __m256i low_23 = _mm256_unpacklo_epi32(pairs[2], pairs[3]);
  const __m256i high_23 = _mm256_unpackhi_epi32(pairs[2], pairs[3]);
  to[0] = _mm256_unpacklo_epi64(low_01, low_23);
  to[1] = _mm256_unpackhi_epi64(low_01, low_23);
  to[2] = _mm256_unpacklo_epi64(high_01, high_23);
  to[3] = _mm256_unpackhi_epi64(high_01, high_23);
}

// Lanes [first, first + n) to to[first], to[first + 1] ...
[[gnu::always_inline]] inline void store_rows(float* to, int64_t first, int64_t n, Floats v) {
  if (n == kPanelRows) {
    _mm256_storeu_ps(to, v);
    return;
  }
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i before = _mm256_cmpgt_epi32(all_words(static_cast<int>(first)), lane);
  const __m256i until = _mm256_cmpgt_epi32(all_words(static_cast<int>(first + n)), lane);
  _mm256_maskstore_ps(to, _mm256_andnot_si256(before, until), v);
}

}  // namespace
}  // namespace penstock
