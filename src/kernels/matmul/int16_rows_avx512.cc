#include <immintrin.h>

#include <limits>

#include "kernels/matmul/integer_kernels.h"
#include "kernels/reduce_avx512.h"

namespace penstock {
namespace {

constexpr int64_t kGroups = kInt16Span / kInt16Group;
static_assert(kGroups == 16, "a lane for each group of a span");

__m512i larger(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
__m512i sum(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }

// A bit pattern above infinity's is a NaN's: whole numbers tell which numbers are finite, and their
// order is the magnitudes'.
__m512i magnitudes(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF));
}

// The codes of 16 numbers; all 0 unless `finite`.
__m512i codes_of(const float* x, __m512 factor, __mmask16 finite) {
  const __m512 most = _mm512_set1_ps(kLargestCode);
  const __m512 least = _mm512_set1_ps(-kLargestCode);
  const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x), factor);
  return _mm512_maskz_cvtps_epi32(finite, _mm512_min_ps(_mm512_max_ps(scaled, least), most));
}

// 32 codes of 16 bits, in order.
__m512i together(__m512i first, __m512i second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(first)),
                            _mm512_cvtepi32_epi16(second), 1);
}

void store_32(int8_t* to, __m512i words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(words));
}

// to[i * stride] = numbers[i].
void store_apart(float* to, int stride, __m512 numbers) {
  const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  _mm512_i32scatter_ps(to, _mm512_mullo_epi32(count, _mm512_set1_epi32(stride)), numbers, 4);
}

}  // namespace

void quantise_span_avx512(const float* x, const GroupCodes& to) {
  __m512i of_groups[kGroups];
  for (int64_t g = 0; g < kGroups; ++g) {
    const float* const group = x + g * kInt16Group;
    of_groups[g] =
        larger(magnitudes(_mm512_loadu_ps(group)), magnitudes(_mm512_loadu_ps(group + 16)));
  }
  const __m512i max_bits = reduce_each(of_groups, larger);
  const __m512 max = _mm512_castsi512_ps(max_bits);
  const __mmask16 finite = _mm512_cmplt_epu32_mask(max_bits, _mm512_set1_epi32(0x7F800000));
  const __mmask16 large =
      _mm512_mask_cmp_ps_mask(finite, max, _mm512_set1_ps(kLeastMagnitude), _CMP_GE_OQ);
  const __m512 most = _mm512_set1_ps(kLargestCode);
  const __m512 factors = _mm512_maskz_div_ps(large, most, max);
  const __m512 scales = _mm512_mask_div_ps(_mm512_set1_ps(std::numeric_limits<float>::quiet_NaN()),
                                           finite, max, most);

  __m512i halves[2][kGroups];
  for (int64_t g = 0; g < kGroups; ++g) {
    const float* const group = x + g * kInt16Group;
    const __m512 factor = _mm512_permutexvar_ps(_mm512_set1_epi32(static_cast<int>(g)), factors);
    const auto all = static_cast<__mmask16>((finite >> g & 1) != 0 ? 0xFFFF : 0);
    halves[0][g] = codes_of(group, factor, all);
    halves[1][g] = codes_of(group + 16, factor, all);
    const __m512i codes = together(halves[0][g], halves[1][g]);
    store_32(to.low + g * kInt16Group, codes);
    store_32(to.high + g * kInt16Group,
             _mm512_srai_epi16(_mm512_add_epi16(codes, _mm512_set1_epi16(128)), 8));
  }
  const __m512i first = reduce_each(halves[0], sum);
  const __m512i second = reduce_each(halves[1], sum);
  const auto scaled = [&](__m512i sums) { return _mm512_mul_ps(scales, _mm512_cvtepi32_ps(sums)); };
  store_apart(to.scale, kInt16RowGroup, scales);
  store_apart(to.sum_32, kInt16RowGroup, scaled(sum(first, second)));
  store_apart(to.sums_16, 2 * kInt16RowGroup, scaled(first));
  store_apart(to.sums_16 + kInt16RowGroup, 2 * kInt16RowGroup, scaled(second));
}

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
