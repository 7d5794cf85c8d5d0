#include "kernels/attention/attention_fast_lanes_avx512.h"
#include "kernels/attention/attention_fast_task.h"

namespace penstock {
namespace {

// 4 rows of these: 16 of the 32 registers.
inline constexpr int kScoreWidth = 4;
inline constexpr int kTotalWidth = 4;

inline __m512i high_halves(__m512i words) {
  return _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U)));
}

// One number of each of the first n of 16 pairs.
inline Lanes first_of_pairs(const uint16_t* pairs, int64_t n) {
  const __m512i words = _mm512_maskz_loadu_epi32(first_n(n), pairs);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16))};
}
inline Lanes second_of_pairs(const uint16_t* pairs, int64_t n) {
  return {_mm512_castsi512_ps(high_halves(_mm512_maskz_loadu_epi32(first_n(n), pairs)))};
}

// Of finite numbers: to the nearest, ties to even.
inline Lanes round_to_bf16(Lanes x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i is_odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7FFF));
  return {_mm512_castsi512_ps(high_halves(_mm512_add_epi32(bits, half)))};
}

// To the nearest, ties up.
inline Lanes round_weights(Lanes w) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  return {_mm512_castsi512_ps(high_halves(_mm512_add_epi32(_mm512_castps_si512(w.v), half)))};
}

inline Lanes widened(const uint16_t* numbers) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}

}  // namespace
}  // namespace penstock

#include "kernels/attention/attention_fast_lanes.h"

namespace penstock {

void attend_fast_avx512(const FastAttentionTask& task) { attend_block(task); }

}  // namespace penstock
