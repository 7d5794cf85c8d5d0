#include <immintrin.h>

#include <limits>

#include "kernels/matmul/integer_kernels.h"

namespace penstock {

void quantise_group_avx512(const float* x, int64_t n, const GroupCodes& to) {
  const auto mask = static_cast<__mmask32>(n >= 32 ? ~0U : (1U << n) - 1);
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), x);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), x + 16);
  constexpr int kNanOrInfinity = 0x99;  // quiet NaN, +infinity, -infinity, signalling NaN
  const bool finite = (_mm512_fpclass_ps_mask(low, kNanOrInfinity) |
                       _mm512_fpclass_ps_mask(high, kNanOrInfinity)) == 0;
  const float max = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
  const __m512 factor =
      _mm512_set1_ps(finite && max >= kLeastMagnitude ? kLargestCode / max : 0.0F);
  const float scale = finite ? max / kLargestCode : std::numeric_limits<float>::quiet_NaN();
  const auto codes_of = [&](__m512 numbers) {
    const __m512 most = _mm512_set1_ps(kLargestCode);
    const __m512 scaled = _mm512_min_ps(
        _mm512_max_ps(_mm512_mul_ps(numbers, factor), _mm512_sub_ps(_mm512_setzero_ps(), most)),
        most);
    return finite ? _mm512_cvtps_epi32(scaled) : _mm512_setzero_si512();
  };
  const __m512i codes[] = {codes_of(low), codes_of(high)};
  for (int half = 0; half < 2; ++half) {
    const auto of_half = static_cast<__mmask16>(mask >> 16 * half);
    const __m512i rounded = _mm512_add_epi32(codes[half], _mm512_set1_epi32(128));
    _mm_mask_storeu_epi8(to.high + int64_t{16} * half, of_half,
                         _mm512_cvtepi32_epi8(_mm512_srai_epi32(rounded, 8)));
    _mm_mask_storeu_epi8(to.low + int64_t{16} * half, of_half, _mm512_cvtepi32_epi8(codes[half]));
  }
  const int sums[] = {_mm512_reduce_add_epi32(codes[0]), _mm512_reduce_add_epi32(codes[1])};
  *to.scale = scale;
  to.sums_16[0] = scale * static_cast<float>(sums[0]);
  to.sums_16[kInt16RowGroup] = scale * static_cast<float>(sums[1]);
  *to.sum_32 = scale * static_cast<float>(sums[0] + sums[1]);
}

}  // namespace penstock
