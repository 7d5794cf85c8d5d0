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
  static constexpr int kCols = 16;
  static constexpr int kBytes = 16;
  static constexpr bool kRagged = true;
  const uint8_t* at;
  Fp8RowScale scale;

  Fp8(const StoredRows& w, int64_t row, int64_t begin)
      : at(w.data + static_cast<size_t>(row) * w.row_bytes + begin), scale(w, row, begin) {}
  // An E4M3 code moved to where a half keeps exponent and fraction is that half times 2^8: the
  // biases are 7 and 15, and both have subnormals. The NaN code gets a half's NaN exponent.
  [[gnu::always_inline]] Lanes load(const uint8_t* p) {
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
    emit(0, load(at));
    at += kBytes;
  }
  Lanes last(int64_t n) { return keep_first_lanes(load(LastColumns<1>(at, n).bytes), n); }
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
