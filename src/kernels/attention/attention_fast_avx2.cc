#include "kernels/attention/attention_fast_task.h"
#include "kernels/attention/exp2.h"
#include "kernels/lanes_avx2.h"

namespace penstock {
namespace {

// 4 rows of one Lanes: 8 of the 16 registers.
inline constexpr int kScoreWidth = 1;
inline constexpr int kTotalWidth = 1;

inline __m256i high_halves(__m256i words) {
  return _mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xFFFF0000U)));
}

// The first n of 16 pairs of bf16; 0 for the rest.
struct Pairs {
  Pairs(const uint16_t* pairs, int64_t n) {
    const auto* const words = reinterpret_cast<const int*>(pairs);
    low = _mm256_maskload_epi32(words, first_n(n));
    high = _mm256_maskload_epi32(words + 8, first_n(n - 8));
  }
  __m256i low, high;
};

inline Lanes first_of_pairs(const uint16_t* pairs, int64_t n) {
  const Pairs p(pairs, n);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(p.low, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(p.high, 16))};
}
inline Lanes second_of_pairs(const uint16_t* pairs, int64_t n) {
  const Pairs p(pairs, n);
  return {_mm256_castsi256_ps(high_halves(p.low)), _mm256_castsi256_ps(high_halves(p.high))};
}

inline __m256 round_eight_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7FFF));
  return _mm256_castsi256_ps(high_halves(_mm256_add_epi32(bits, half)));
}
// Of finite numbers: to the nearest, ties to even.
inline Lanes round_to_bf16(Lanes x) {
  return {round_eight_to_bf16(x.low), round_eight_to_bf16(x.high)};
}

inline __m256 round_eight_weights(__m256 w) {
  const __m256i half = _mm256_set1_epi32(0x8000);
  return _mm256_castsi256_ps(high_halves(_mm256_add_epi32(_mm256_castps_si256(w), half)));
}
// To the nearest, ties up.
inline Lanes round_weights(Lanes w) {
  return {round_eight_weights(w.low), round_eight_weights(w.high)};
}

// exp2.h, step by step.
inline __m256 exp2_of_eight(__m256 x) {
  using C = Exp2Constants;
  const __m256 rounder = _mm256_set1_ps(C::kRounder);
  const __m256 t = _mm256_add_ps(x, rounder);
  const __m256 r = _mm256_sub_ps(x, _mm256_sub_ps(t, rounder));
  __m256 p = _mm256_set1_ps(C::kPolynomial[0]);
  for (int i = 1; i < 5; ++i) p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(C::kPolynomial[i]));
  const __m256i y =
      _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23));
  const __m256 low = _mm256_cmp_ps(x, _mm256_set1_ps(C::kLowest), _CMP_LT_OQ);
  return _mm256_andnot_ps(low, _mm256_castsi256_ps(y));
}
inline Lanes exp2_lanes(Lanes x) { return {exp2_of_eight(x.low), exp2_of_eight(x.high)}; }

inline __m256 eight_widened(const uint16_t* numbers) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
inline Lanes widened(const uint16_t* numbers) {
  return {eight_widened(numbers), eight_widened(numbers + 8)};
}

}  // namespace
}  // namespace penstock

#include "kernels/attention/attention_fast_lanes.h"

namespace penstock {

void attend_fast_avx2(const FastAttentionTask& task) { attend_block(task); }

}  // namespace penstock
