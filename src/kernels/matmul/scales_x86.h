// Scales and stored bytes on their way into vector registers. Only for ISA files (F16C).
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/matmul/matmul_exact_kernels.h"

namespace penstock {
namespace {

// Numbers that were put in memory to be broadcast from there: a broadcast load needs no shuffle,
// which is what unpacking is short of.
template <int n>
struct Broadcastable {
  alignas(64) float of[n];

  // Call after writing: the compiler would otherwise keep the numbers in a register and shuffle.
  [[gnu::always_inline]] void settle() { asm("" : "+m"(of)); }
};

// The two f16 at `bytes` in of[0] and of[1]; what follows them, to 8 bytes, is read and ignored.
[[gnu::always_inline]] inline Broadcastable<4> two_halves(const uint8_t* bytes) {
  Broadcastable<4> scales;
  const __m128i halves = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
  _mm_store_ps(scales.of, _mm_cvtph_ps(halves));
  scales.settle();
  return scales;
}

[[gnu::always_inline]] inline float half_at(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

[[gnu::always_inline]] inline __m128i load_16(const uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

[[gnu::always_inline]] inline uint32_t word_at(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// The 6-bit scales of a Q4_K or Q5_K block's 8 groups, a byte each, and their minima behind them
// (docs/formats.md).
[[gnu::always_inline]] inline __m128i k_scale_codes(const uint8_t* block) {
  const uint32_t a = word_at(block + 4);
  const uint32_t b = word_at(block + 8);
  const uint32_t c = word_at(block + 12);
  constexpr uint32_t kLow6 = 0x3F3F3F3F;
  constexpr uint32_t kLow4 = 0x0F0F0F0F;
  constexpr uint32_t kHigh2 = 0x30303030;
  const uint32_t scales_4_to_7 = (c & kLow4) | ((a >> 2) & kHigh2);
  const uint32_t mins_4_to_7 = ((c >> 4) & kLow4) | ((b >> 2) & kHigh2);
  return _mm_setr_epi32(static_cast<int>(a & kLow6), static_cast<int>(scales_4_to_7),
                        static_cast<int>(b & kLow6), static_cast<int>(mins_4_to_7));
}

// The scales d sc_j (of[j]) and minima m mn_j (of[8 + j]) of a Q4_K or Q5_K block.
[[gnu::always_inline]] inline Broadcastable<16> k_scales(const uint8_t* block) {
  const __m128i codes = k_scale_codes(block);
  const auto times = [](__m128i bytes, float factor) __attribute__((always_inline)) {
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), _mm256_set1_ps(factor));
  };
  Broadcastable<16> scales;
  _mm256_store_ps(scales.of, times(codes, half_at(block)));
  _mm256_store_ps(scales.of + 8, times(_mm_srli_si128(codes, 8), half_at(block + 2)));
  scales.settle();
  return scales;
}

// The 6-bit scales of a Q3_K block's 16 groups less 32, a signed byte each (docs/formats.md).
[[gnu::always_inline]] inline __m128i q3_k_scale_codes(const uint8_t* block) {
  const uint32_t a = word_at(block + 96);
  const uint32_t b = word_at(block + 100);
  const uint32_t high = word_at(block + 104);
  constexpr uint32_t kLow4 = 0x0F0F0F0F;
  constexpr uint32_t kHigh2 = 0x30303030;
  const __m128i codes =
      _mm_setr_epi32(static_cast<int>((a & kLow4) | ((high << 4) & kHigh2)),
                     static_cast<int>((b & kLow4) | ((high << 2) & kHigh2)),
                     static_cast<int>(((a >> 4) & kLow4) | (high & kHigh2)),
                     static_cast<int>(((b >> 4) & kLow4) | ((high >> 2) & kHigh2)));
  return _mm_sub_epi8(codes, _mm_set1_epi8(32));
}

// The scales of an IQ4_XS block's 8 groups: a nibble and two bits of `high` each, less 32.
[[gnu::always_inline]] inline Broadcastable<8> iq4_xs_scales(const uint8_t* block) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(word_at(block)) >> 16);
  const __m256i low = _mm256_set1_epi32(static_cast<int>(word_at(block + 4)));
  const __m256i bits_4_5 = _mm256_and_si256(
      _mm256_slli_epi32(_mm256_srlv_epi32(high, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)), 4),
      _mm256_set1_epi32(0x30));
  const __m256i bits_0_3 =
      _mm256_and_si256(_mm256_srlv_epi32(low, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)),
                       _mm256_set1_epi32(0x0F));
  const __m256i codes =
      _mm256_sub_epi32(_mm256_or_si256(bits_4_5, bits_0_3), _mm256_set1_epi32(32));
  Broadcastable<8> scales;
  _mm256_store_ps(scales.of,
                  _mm256_mul_ps(_mm256_cvtepi32_ps(codes), _mm256_set1_ps(half_at(block))));
  scales.settle();
  return scales;
}

// Scale number i of an FP8 matrix.
[[gnu::always_inline]] inline float fp8_scale(const StoredRows& w, int64_t i) {
  float scale = 1.0F;
  switch (w.scale_format) {
    case ScaleFormat::kF32:
      std::memcpy(&scale, w.scales + 4 * i, sizeof scale);
      break;
    case ScaleFormat::kBF16: {
      uint16_t bits;
      std::memcpy(&bits, w.scales + 2 * i, sizeof bits);
      const uint32_t wide = static_cast<uint32_t>(bits) << 16;
      std::memcpy(&scale, &wide, sizeof scale);
      break;
    }
    case ScaleFormat::kF16:
      scale = half_at(w.scales + 2 * i);
      break;
    case ScaleFormat::kE8M0:
      scale = kE8m0Scales.of[w.scales[i]];
      break;
  }
  return scale;
}

// Walks the scales of one FP8 row: one for every scale_cols columns, itself a multiple of 16 (or
// the whole row's).
class Fp8RowScale {
 public:
  [[gnu::always_inline]] Fp8RowScale(const StoredRows& w, int64_t row, int64_t begin)
      : w_(&w),
        next_(row / w.scale_rows * w.scales_per_row + begin / w.scale_cols),
        left_(w.scale_cols - begin % w.scale_cols) {
    set(w.scales != nullptr ? fp8_scale(w, next_++) : 1.0F);
  }
  // The scale of the next 16 columns.
  [[gnu::always_inline]] float take_16() {
    prepare();
    left_ -= 16;
    return scale_;
  }
  // Whether the next 64 columns have one scale and 2^120 times it is a number too.
  [[gnu::always_inline]] bool is_one_for_64() {
    prepare();
    return left_ >= 64 && is_small_;
  }
  // That number.
  [[gnu::always_inline]] float take_64_times_2_120() {
    left_ -= 64;
    return scale_ * 0x1p120F;
  }

 private:
  [[gnu::always_inline]] void set(float scale) {
    scale_ = scale;
    is_small_ = scale > -0x1p7F && scale < 0x1p7F;
  }
  [[gnu::always_inline]] void prepare() {
    if (left_ > 0) return;
    set(fp8_scale(*w_, next_++));
    left_ = w_->scale_cols;
  }

  const StoredRows* w_;
  int64_t next_;  // number of the next scale
  int64_t left_;  // columns before it is due
  float scale_ = 1.0F;
  bool is_small_ = true;
};

}  // namespace
}  // namespace penstock
