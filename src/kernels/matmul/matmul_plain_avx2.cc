// AVX2 unpackers of the formats whose rows are plain numbers: F32, F16, BF16, FP8.
#include "kernels/matmul/lanes_avx2.h"
#include "kernels/matmul/scales_x86.h"
#include "kernels/matmul/unpack_loops.h"

namespace penstock {
namespace {

// The first n of a row's last columns, zero bytes behind them: a whole load could leave the matrix.
template <int element_bytes>
struct LastColumns {
  alignas(32) uint8_t bytes[16 * element_bytes] = {};

  LastColumns(const uint8_t* from, int64_t n) {
    std::memcpy(bytes, from, static_cast<size_t>(n) * element_bytes);
  }
};

struct F32 {
  static constexpr int kCols = 16;
  static constexpr int kBytes = 64;
  static constexpr bool kRagged = true;
  const uint8_t* at;

  F32(const StoredRows& w, int64_t row, int64_t begin)
      : at(w.data + static_cast<size_t>(row) * w.row_bytes + 4 * begin) {}
  [[gnu::always_inline]] static Lanes load(const uint8_t* p) {
    return {_mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
            _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)))};
  }
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    emit(0, load(at));
    at += kBytes;
  }
  Lanes last(int64_t n) { return keep_first_lanes(load(LastColumns<4>(at, n).bytes), n); }
};

struct F16 {
  static constexpr int kCols = 16;
  static constexpr int kBytes = 32;
  static constexpr bool kRagged = true;
  const uint8_t* at;

  F16(const StoredRows& w, int64_t row, int64_t begin)
      : at(w.data + static_cast<size_t>(row) * w.row_bytes + 2 * begin) {}
  [[gnu::always_inline]] static Lanes load(const uint8_t* p) {
    return {_mm256_cvtph_ps(load_16(p)), _mm256_cvtph_ps(load_16(p + 16))};
  }
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    emit(0, load(at));
    at += kBytes;
  }
  Lanes last(int64_t n) { return keep_first_lanes(load(LastColumns<2>(at, n).bytes), n); }
};

struct BF16 {
  static constexpr int kCols = 16;
  static constexpr int kBytes = 32;
  static constexpr bool kRagged = true;
  const uint8_t* at;

  BF16(const StoredRows& w, int64_t row, int64_t begin)
      : at(w.data + static_cast<size_t>(row) * w.row_bytes + 2 * begin) {}
  [[gnu::always_inline]] static __m256 widen(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  [[gnu::always_inline]] static Lanes load(const uint8_t* p) {
    return {widen(load_16(p)), widen(load_16(p + 16))};
  }
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    emit(0, load(at));
    at += kBytes;
  }
  Lanes last(int64_t n) { return keep_first_lanes(load(LastColumns<2>(at, n).bytes), n); }
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
    const auto find_others = [](const uint8_t* p) __attribute__((always_inline)) {
      const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
      // No sign, twice; and 128 lower, since bytes compare as signed ones.
      const __m256i from_least = _mm256_sub_epi8(_mm256_add_epi8(codes, codes),
                                                 _mm256_set1_epi8(static_cast<char>(2 * 8 + 128)));
      constexpr int kNaN = 2 * (0x7F - 8) - 128;
      return _mm256_cmpgt_epi8(from_least, _mm256_set1_epi8(kNaN - 1));
    };
    const __m256i others = _mm256_or_si256(find_others(at), find_others(at + 32));
    return _mm256_testz_si256(others, others) != 0;
  }
  // A normal code moved to where a float32 keeps sign, exponent and fraction is that float32 times
  // 2^120: the biases are 7 and 127.
  [[gnu::always_inline]] static Lanes widen_normal(const uint8_t* p, __m256 scale_times_2_120) {
    const auto eight = [&](const uint8_t* from) __attribute__((always_inline)) {
      const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
      const __m256i moved = _mm256_slli_epi32(_mm256_cvtepi8_epi32(codes), 20);  // sssss eeee mmm 0
      const __m256i bits = _mm256_and_si256(moved, _mm256_set1_epi32(static_cast<int>(0x87F00000)));
      return _mm256_mul_ps(_mm256_castsi256_ps(bits), scale_times_2_120);
    };
    return {eight(p), eight(p + 8)};
  }
  // Moved to where a half keeps exponent and fraction, any code is that half times 2^8: the biases
  // are 7 and 15, and both have subnormals. The NaN code gets a half's NaN exponent.
  [[gnu::always_inline]] Lanes widen(const uint8_t* p) {
    const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(load_16(p)), 7);
    const __m256i is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(moved, _mm256_set1_epi16(0x3FFF)),
                                              _mm256_set1_epi16(0x7F << 7));
    const __m256i halves =
        _mm256_or_si256(_mm256_and_si256(moved, _mm256_set1_epi16(static_cast<short>(0xBFFF))),
                        _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7E00)));
    const __m256 factor = _mm256_set1_ps(scale.take_16());
    const auto weights = [&](__m128i eight) __attribute__((always_inline)) {
      const __m256 codes = _mm256_mul_ps(_mm256_cvtph_ps(eight), _mm256_set1_ps(0x1p8F));
      return _mm256_mul_ps(codes, factor);
    };
    return {weights(_mm256_castsi256_si128(halves)), weights(_mm256_extracti128_si256(halves, 1))};
  }
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    if (scale.is_one_for_64() && are_normal()) [[likely]] {
      const __m256 factor = _mm256_set1_ps(scale.take_64_times_2_120());
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) emit(i, widen_normal(at + int64_t{16} * i, factor));
    } else {
#pragma GCC unroll 1
      for (int i = 0; i < 4; ++i) emit(i, widen(at + int64_t{16} * i));
    }
    at += kBytes;
  }
  Lanes last(int64_t n) {
    const Lanes weights = keep_first_lanes(widen(LastColumns<1>(at, n).bytes), n);
    at += n;
    return weights;
  }
};

}  // namespace

void add_plain_kernels_avx2(ExactKernels& kernels) {
  add_kernels<F32>(kernels, Format::kF32);
  add_kernels<F16>(kernels, Format::kF16);
  add_kernels<BF16>(kernels, Format::kBF16);
  add_kernels<Fp8>(kernels, Format::kFp8Block);
  add_kernels<Fp8>(kernels, Format::kFp8Tensor);
  add_kernels<Fp8>(kernels, Format::kFp8Channel);
}

}  // namespace penstock
