// AVX-512 unpackers of the formats whose rows are plain numbers: F32, F16, BF16, FP8.
#include "kernels/matmul/lanes_avx512.h"
#include "kernels/matmul/scales_x86.h"
#include "kernels/matmul/unpack_loops.h"

namespace penstock {
namespace {

__m256i load_16_halves(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

struct F32 {
  static constexpr int kCols = 16;
  static constexpr int kBytes = 64;
  static constexpr bool kRagged = true;
  const uint8_t* at;

  F32(const StoredRows& w, int64_t row, int64_t begin)
      : at(w.data + static_cast<size_t>(row) * w.row_bytes + 4 * begin) {}
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    emit(0, _mm512_loadu_ps(at));
    at += kBytes;
  }
  Lanes last(int64_t n) { return keep_first_lanes(_mm512_maskz_loadu_ps(first_lanes(n), at), n); }
};

struct F16 {
  static constexpr int kCols = 16;
  static constexpr int kBytes = 32;
  static constexpr bool kRagged = true;
  const uint8_t* at;

  F16(const StoredRows& w, int64_t row, int64_t begin)
      : at(w.data + static_cast<size_t>(row) * w.row_bytes + 2 * begin) {}
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    emit(0, _mm512_cvtph_ps(load_16_halves(at)));
    at += kBytes;
  }
  Lanes last(int64_t n) {
    return keep_first_lanes(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), at)), n);
  }
};

struct BF16 {
  static constexpr int kCols = 16;
  static constexpr int kBytes = 32;
  static constexpr bool kRagged = true;
  const uint8_t* at;

  BF16(const StoredRows& w, int64_t row, int64_t begin)
      : at(w.data + static_cast<size_t>(row) * w.row_bytes + 2 * begin) {}
  [[gnu::always_inline]] static Lanes widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    emit(0, widen(load_16_halves(at)));
    at += kBytes;
  }
  Lanes last(int64_t n) {
    return keep_first_lanes(widen(_mm256_maskz_loadu_epi16(first_lanes(n), at)), n);
  }
};

struct Fp8 {
  static constexpr int kCols = 64;
  static constexpr int kBytes = 64;
  static constexpr bool kRagged = true;
  const uint8_t* at;
  Fp8RowScale scale;

  Fp8(const StoredRows& w, int64_t row, int64_t begin)
      : at(w.data + static_cast<size_t>(row) * w.row_bytes + begin), scale(w, row, begin) {}

  // Whether none of the next 64 codes is subnormal (below 8, the sign aside), zero or NaN (0x7F).
  [[gnu::always_inline]] bool are_normal() const {
    const __m512i codes = _mm512_loadu_si512(at);
    const __m512i from_least =
        _mm512_sub_epi8(_mm512_add_epi8(codes, codes), _mm512_set1_epi8(2 * 8));  // no sign, twice
    constexpr int kNaN = 2 * (0x7F - 8);
    return _mm512_cmpge_epu8_mask(from_least, _mm512_set1_epi8(static_cast<char>(kNaN))) == 0;
  }
  // A normal code moved to where a float32 keeps sign, exponent and fraction is that float32 times
  // 2^120: the biases are 7 and 127.
  [[gnu::always_inline]] static Lanes widen_normal(__m128i codes, __m512 scale_times_2_120) {
    const __m512i moved = _mm512_slli_epi32(_mm512_cvtepi8_epi32(codes), 20);  // sssss eeee mmm 0
    const __m512i bits = _mm512_and_si512(moved, _mm512_set1_epi32(static_cast<int>(0x87F00000)));
    return _mm512_mul_ps(_mm512_castsi512_ps(bits), scale_times_2_120);
  }
  // Moved to where a half keeps exponent and fraction, any code is that half times 2^8: the biases
  // are 7 and 15, and both have subnormals. Only the NaN code needs care.
  [[gnu::always_inline]] Lanes widen(__m128i codes) {
    const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);  // s s eeee mmm
    const __m256i halves = _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<short>(0xBFFF)));
    const __mmask16 is_nan = _mm256_cmpeq_epi16_mask(
        _mm256_and_si256(moved, _mm256_set1_epi16(0x3FFF)), _mm256_set1_epi16(0x7F << 7));
    const __m512 code = _mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(0x1p8F));
    const __m512 weight = _mm512_mul_ps(code, _mm512_set1_ps(scale.take_16()));
    return _mm512_mask_mov_ps(weight, is_nan, _mm512_set1_ps(__builtin_nanf("")));
  }
  [[gnu::always_inline]] __m128i load_16(int i) const {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + i);
  }
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    if (scale.is_one_for_64() && are_normal()) [[likely]] {
      const __m512 factor = _mm512_set1_ps(scale.take_64_times_2_120());
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) emit(i, widen_normal(load_16(i), factor));
    } else {
#pragma GCC unroll 1
      for (int i = 0; i < 4; ++i) emit(i, widen(load_16(i)));
    }
    at += kBytes;
  }
  Lanes last(int64_t n) {
    const Lanes weights = keep_first_lanes(widen(_mm_maskz_loadu_epi8(first_lanes(n), at)), n);
    at += n;
    return weights;
  }
};

}  // namespace

void add_plain_kernels_avx512(ExactKernels& kernels) {
  add_kernels<F32>(kernels, Format::kF32);
  add_kernels<F16>(kernels, Format::kF16);
  add_kernels<BF16>(kernels, Format::kBF16);
  add_kernels<Fp8>(kernels, Format::kFp8Block);
  add_kernels<Fp8>(kernels, Format::kFp8Tensor);
  add_kernels<Fp8>(kernels, Format::kFp8Channel);
}

}  // namespace penstock
