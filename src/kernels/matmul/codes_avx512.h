// Codes of stored weights on their way to the 16 lanes of the exact class, on AVX-512. Only for
// files named *_avx512.cc. codes_avx2.h has the same names; ggml_blocks.h and kquant_blocks.h are
// written once for both.
#pragma once

#include "kernels/matmul/floats_avx512.h"
#include "kernels/matmul/lanes_avx512.h"

namespace penstock {
namespace {

// f for every lane; f takes and gives Floats.
template <class F>
[[gnu::always_inline]] inline Lanes lane_by_lane(F f, Lanes x) {
  return f(x);
}

// 16 signed bytes as numbers.
[[gnu::always_inline]] inline Lanes numbers_of(__m128i signed_bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(signed_bytes));
}

// 16 integers, one to a lane. Where a code has fewer bits than a lane, others may lie above it.
using Codes = __m512i;

[[gnu::always_inline]] inline Codes load_codes(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// By n bits; to the left where n < 0.
template <int n>
[[gnu::always_inline]] inline Codes shift_right(Codes codes) {
  if constexpr (n > 0) return _mm512_srli_epi32(codes, n);
  if constexpr (n < 0) return _mm512_slli_epi32(codes, -n);
  return codes;
}
// The bits of `a` that `mask` has, and of `b` those that it has not.
template <int mask>
[[gnu::always_inline]] inline Codes pick_bits(Codes a, Codes b) {
  constexpr int kFirstWhereThird = 0xE4;
  return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi32(mask), kFirstWhereThird);
}
// Bit first + i of `bits` as bit 4 of lane i.
template <int first>
[[gnu::always_inline]] inline Codes to_bit_4(uint32_t bits) {
  const Codes count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_srlv_epi32(shift_right<first - 4>(_mm512_set1_epi32(static_cast<int>(bits))),
                           count);
}

// The weights that codes of so many bits stand for: f of each code. All are computed at once, and a
// permute by the codes reads them, which looks at no bits above theirs.
template <int bits, class F>
class Weights {
  static_assert(bits >= 2 && bits <= 5);

 public:
  [[gnu::always_inline]] explicit Weights(F f) : of_low_(f(first_codes())) {
    if constexpr (bits == 5) of_high_ = f(add(first_codes(), _mm512_set1_ps(16.0F)));
  }
  [[gnu::always_inline]] Lanes of(Codes codes) const {
    if constexpr (bits == 2) return _mm512_permutevar_ps(of_low_, codes);
    if constexpr (bits == 5) return _mm512_permutex2var_ps(of_low_, codes, of_high_);
    return _mm512_permutexvar_ps(codes, of_low_);
  }
  // Of codes above which there are no bits.
  [[gnu::always_inline]] Lanes of_bare(Codes codes) const { return of(codes); }

 private:
  // 0, 1, 2 and on, starting again where the codes end.
  [[gnu::always_inline]] static Floats first_codes() {
    constexpr int n = bits < 4 ? 1 << bits : 16;
    const auto at = [](int i) { return static_cast<float>(i % n); };
    return _mm512_setr_ps(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9),
                          at(10), at(11), at(12), at(13), at(14), at(15));
  }

  Floats of_low_, of_high_;
};

// d values[code] for codes of four bits.
class ListedWeights {
 public:
  [[gnu::always_inline]] ListedWeights(const float (&values)[16], Floats d)
      : weights_(mul(_mm512_loadu_ps(values), d)) {}
  [[gnu::always_inline]] Lanes of(Codes codes) const {
    return _mm512_permutexvar_ps(codes, weights_);
  }
  [[gnu::always_inline]] Lanes of_bare(Codes codes) const { return of(codes); }

 private:
  Floats weights_;
};

}  // namespace
}  // namespace penstock
