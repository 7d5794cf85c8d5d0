#include <immintrin.h>

#include <cstring>
#include <limits>

#include "kernels/matmul/integer_kernels.h"

namespace penstock {
namespace {

float largest(__m256 numbers) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(numbers), _mm256_extractf128_ps(numbers, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

int sum(__m256i words) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  four = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 1)));
}

// The lowest bytes of 32 words, in order.
__m256i low_bytes(const __m256i (&words)[4]) {
  const __m256i byte = _mm256_set1_epi32(0xFF);
  const auto low = [&](int i) { return _mm256_and_si256(words[i], byte); };
  const __m256i packed =
      _mm256_packus_epi16(_mm256_packus_epi32(low(0), low(1)), _mm256_packus_epi32(low(2), low(3)));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

void store(int8_t* to, __m256i bytes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
}

}  // namespace

// Writes 32 codes whatever n is: rows are padded.
void quantise_group_avx2(const float* x, int64_t n, const GroupCodes& to) {
  float first_n[kInt16Group] = {};
  if (n < kInt16Group) {
    std::memcpy(first_n, x, static_cast<size_t>(n) * sizeof(float));
    x = first_n;
  }
  const __m256 infinity = _mm256_set1_ps(std::numeric_limits<float>::infinity());
  __m256 numbers[4];
  __m256 magnitude = _mm256_setzero_ps();
  __m256 finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  for (int i = 0; i < 4; ++i) {
    numbers[i] = _mm256_loadu_ps(x + int64_t{8} * i);
    const __m256 each = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), numbers[i]);
    magnitude = _mm256_max_ps(magnitude, each);
    finite = _mm256_and_ps(finite, _mm256_cmp_ps(each, infinity, _CMP_LT_OQ));
  }
  const bool all_finite = _mm256_movemask_ps(finite) == 0xFF;
  const float max = largest(magnitude);
  const __m256 factor =
      _mm256_set1_ps(all_finite && max >= kLeastMagnitude ? kLargestCode / max : 0.0F);
  const __m256 most = _mm256_set1_ps(kLargestCode);
  const __m256 least = _mm256_set1_ps(-kLargestCode);
  __m256i codes[4] = {};
  __m256i high[4] = {};
  for (int i = 0; all_finite && i < 4; ++i) {
    const __m256 scaled = _mm256_mul_ps(numbers[i], factor);
    codes[i] = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(scaled, least), most));
    high[i] = _mm256_srai_epi32(_mm256_add_epi32(codes[i], _mm256_set1_epi32(128)), 8);
  }
  store(to.high, low_bytes(high));
  store(to.low, low_bytes(codes));
  const float scale = all_finite ? max / kLargestCode : std::numeric_limits<float>::quiet_NaN();
  const int sums[] = {sum(_mm256_add_epi32(codes[0], codes[1])),
                      sum(_mm256_add_epi32(codes[2], codes[3]))};
  *to.scale = scale;
  to.sums_16[0] = scale * static_cast<float>(sums[0]);
  to.sums_16[kInt16RowGroup] = scale * static_cast<float>(sums[1]);
  *to.sum_32 = scale * static_cast<float>(sums[0] + sums[1]);
}

}  // namespace penstock
