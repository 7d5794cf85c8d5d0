// 16 registers, each put together to one lane. Only for files named *_avx512.cc or *_amx.cc.
#pragma once

#include <immintrin.h>

namespace penstock {
namespace {

// Lane i of the result: all lanes of words[i], put together by op(a, b), lane by lane. Lane k with
// k
// + 8 first, then with k + 4, k + 2, k + 1, as two, four, eight and sixteen registers share one.
template <class Op>
inline __m512i reduce_each(const __m512i (&words)[16], Op op) {
  __m512i eight[8];  // [lanes of k | lanes of k + 8]
  for (int k = 0; k < 8; ++k) {
    eight[k] = op(_mm512_shuffle_i32x4(words[k], words[k + 8], 0x44),
                  _mm512_shuffle_i32x4(words[k], words[k + 8], 0xEE));
  }
  __m512i four[4];  // [k | k + 8 | k + 4 | k + 12]
  for (int k = 0; k < 4; ++k) {
    four[k] = op(_mm512_shuffle_i32x4(eight[k], eight[k + 4], 0x88),
                 _mm512_shuffle_i32x4(eight[k], eight[k + 4], 0xDD));
  }
  __m512 two[2];  // within each 128 bits: two lanes of k, then two of k + 2
  for (int k = 0; k < 2; ++k) {
    two[k] = _mm512_castsi512_ps(op(_mm512_unpacklo_epi64(four[k], four[k + 2]),
                                    _mm512_unpackhi_epi64(four[k], four[k + 2])));
  }
  // within each 128 bits, plus 0, 8, 4, 12: those of 0, 2, 1, 3
  const __m512i one = op(_mm512_castps_si512(_mm512_shuffle_ps(two[0], two[1], 0x88)),
                         _mm512_castps_si512(_mm512_shuffle_ps(two[0], two[1], 0xDD)));
  const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
  return _mm512_permutexvar_epi32(order, one);
}

}  // namespace
}  // namespace penstock
