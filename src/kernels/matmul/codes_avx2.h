// Codes of stored weights on their way to the 16 lanes of the exact class, on AVX2. Only for files
// named *_avx2.cc. codes_avx512.h has the same names; ggml_blocks.h and kquant_blocks.h are written
// once for both.
#pragma once

#include "kernels/matmul/floats_avx2.h"
#include "kernels/matmul/lanes_avx2.h"

namespace penstock {
namespace {

// f for every lane; f takes and gives Floats.
template <class F>
[[gnu::always_inline]] inline Lanes lane_by_lane(F f, const Lanes& x) {
  return {f(x.low), f(x.high)};
}

// 16 signed bytes as numbers.
[[gnu::always_inline]] inline Lanes numbers_of(__m128i signed_bytes) {
  const auto eight = [](__m128i bytes) __attribute__((always_inline)) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  };
  return {eight(signed_bytes), eight(_mm_unpackhi_epi64(signed_bytes, signed_bytes))};
}

// 16 integers, one to a lane. Where a code has fewer bits than a lane, others may lie above it.
struct Codes {
  __m256i low;   // lanes 0 to 7
  __m256i high;  // lanes 8 to 15
};

[[gnu::always_inline]] inline Codes load_codes(const uint8_t* p) {
  const auto eight = [](const uint8_t* from) __attribute__((always_inline)) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  };
  return {eight(p), eight(p + 8)};
}
// By n bits; to the left where n < 0.
template <int n>
[[gnu::always_inline]] inline Codes shift_right(const Codes& codes) {
  if constexpr (n > 0) return {_mm256_srli_epi32(codes.low, n), _mm256_srli_epi32(codes.high, n)};
  if constexpr (n < 0) return {_mm256_slli_epi32(codes.low, -n), _mm256_slli_epi32(codes.high, -n)};
  return codes;
}
// The bits of `a` that `mask` has, and of `b` those that it has not.
template <int mask>
[[gnu::always_inline]] inline Codes pick_bits(const Codes& a, const Codes& b) {
  const auto pick = [](__m256i first, __m256i second) __attribute__((always_inline)) {
    const __m256i where = _mm256_set1_epi32(mask);
    return _mm256_or_si256(_mm256_and_si256(where, first), _mm256_andnot_si256(where, second));
  };
  return {pick(a.low, b.low), pick(a.high, b.high)};
}
// Bit first + i of `bits` as bit 4 of lane i.
template <int first>
[[gnu::always_inline]] inline Codes to_bit_4(uint32_t bits) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(bits));
  const Codes moved = shift_right<first - 4>(Codes{all, all});
  return {_mm256_srlv_epi32(moved.low, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
          _mm256_srlv_epi32(moved.high, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}

// The weights that codes of so many bits stand for: f of each code. Those of up to three bits fill
// a register, from which a permute by the codes reads; it looks at no bits above theirs.
template <int bits, class F>
class Weights {
  static_assert(bits == 2 || bits == 3);

 public:
  [[gnu::always_inline]] explicit Weights(F f) : all_(f(first_codes())) {}
  [[gnu::always_inline]] Lanes of(const Codes& codes) const {
    if constexpr (bits == 2) {
      return {_mm256_permutevar_ps(all_, codes.low), _mm256_permutevar_ps(all_, codes.high)};
    }
    return {_mm256_permutevar8x32_ps(all_, codes.low), _mm256_permutevar8x32_ps(all_, codes.high)};
  }

 private:
  // 0, 1, 2 and on, starting again where the codes end.
  [[gnu::always_inline]] static Floats first_codes() {
    const auto at = [](int i) { return static_cast<float>(i % (1 << bits)); };
    return _mm256_setr_ps(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
  }

  Floats all_;
};

// Longer codes are computed with one by one.
template <int bits, class F>
  requires(bits == 4 || bits == 5)
class Weights<bits, F> {
 public:
  [[gnu::always_inline]] explicit Weights(F f) : f_(f) {}
  [[gnu::always_inline]] Lanes of(const Codes& codes) const {
    const __m256i mask = _mm256_set1_epi32((1 << bits) - 1);
    return of_bare({_mm256_and_si256(codes.low, mask), _mm256_and_si256(codes.high, mask)});
  }
  // Of codes above which there are no bits.
  [[gnu::always_inline]] Lanes of_bare(const Codes& codes) const {
    return {f_(_mm256_cvtepi32_ps(codes.low)), f_(_mm256_cvtepi32_ps(codes.high))};
  }

 private:
  F f_;
};

// d values[code] for codes of four bits.
class ListedWeights {
 public:
  [[gnu::always_inline]] ListedWeights(const float (&values)[16], Floats d)
      : of_low_(mul(_mm256_loadu_ps(values), d)), of_high_(mul(_mm256_loadu_ps(values + 8), d)) {}
  [[gnu::always_inline]] Lanes of(const Codes& codes) const {
    const auto look_up = [this](__m256i code) __attribute__((always_inline)) {
      const __m256 bit_3_first = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28));
      return _mm256_blendv_ps(_mm256_permutevar8x32_ps(of_low_, code),
                              _mm256_permutevar8x32_ps(of_high_, code), bit_3_first);
    };
    return {look_up(codes.low), look_up(codes.high)};
  }
  [[gnu::always_inline]] Lanes of_bare(const Codes& codes) const { return of(codes); }

 private:
  Floats of_low_, of_high_;
};

}  // namespace
}  // namespace penstock
