// What attention_fast's AVX-512 and AMX files share beyond kernels/lanes_avx512.h.
#pragma once

#include "kernels/attention/exp2.h"
#include "kernels/lanes_avx512.h"
#include "kernels/transpose_avx512.h"

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

}  // namespace
}  // namespace penstock
