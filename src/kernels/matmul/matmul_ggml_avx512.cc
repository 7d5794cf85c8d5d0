// AVX-512 unpackers of ggml's integer blocks (docs/formats.md): Q4_0, Q4_1, Q8_0, Q4_K, Q6_K.
//
// Four-bit codes are looked up: a table of the 16 weights a group can hold is computed once per
// group and a permute by the codes reads it, looking at the low four bits of each lane only.
#include "kernels/matmul/lanes_avx512.h"
#include "kernels/matmul/scales_x86.h"
#include "kernels/matmul/unpack_loops.h"

namespace penstock {
namespace {

[[gnu::always_inline]] inline __m512i widen_16_bytes(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

[[gnu::always_inline]] inline __m512 numbers_from(float first) {
  const __m512 count = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_add_ps(count, _mm512_set1_ps(first));
}

[[gnu::always_inline]] inline Lanes look_up_low(__m512i bytes, __m512 weights) {
  return _mm512_permutexvar_ps(bytes, weights);
}
[[gnu::always_inline]] inline Lanes look_up_high(__m512i bytes, __m512 weights) {
  return _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), weights);
}

template <int cols, int bytes>
struct BlockUnpacker {
  static constexpr int kCols = cols;
  static constexpr int kBytes = bytes;
  static constexpr bool kRagged = false;
  const uint8_t* block;

  BlockUnpacker(const StoredRows& w, int64_t row, int64_t begin)
      : block(w.data + static_cast<size_t>(row) * w.row_bytes + begin / cols * bytes) {}
};

struct Q4_0 : BlockUnpacker<32, 18> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto d = two_halves(block);
    const __m512 weights = _mm512_mul_ps(numbers_from(-8), _mm512_set1_ps(d.of[0]));
    const __m512i codes = widen_16_bytes(block + 2);
    emit(0, look_up_low(codes, weights));
    emit(1, look_up_high(codes, weights));
    block += kBytes;
  }
};

struct Q4_1 : BlockUnpacker<32, 20> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto d_m = two_halves(block);
    const __m512 weights =
        _mm512_fmadd_ps(numbers_from(0), _mm512_set1_ps(d_m.of[0]), _mm512_set1_ps(d_m.of[1]));
    const __m512i codes = widen_16_bytes(block + 4);
    emit(0, look_up_low(codes, weights));
    emit(1, look_up_high(codes, weights));
    block += kBytes;
  }
};

struct Q8_0 : BlockUnpacker<32, 34> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto d = two_halves(block);
    const __m512 scale = _mm512_set1_ps(d.of[0]);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const auto* bytes = reinterpret_cast<const __m128i*>(block + 2 + 16 * i);
      const __m512 codes = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes)));
      emit(i, _mm512_mul_ps(codes, scale));
    }
    block += kBytes;
  }
};

// The scales d sc_j (of[j]) and minima m mn_j (of[8 + j]) of a Q4_K block.
[[gnu::always_inline]] inline Broadcastable<16> k_scales(const uint8_t* block) {
  const __m512 factors =
      _mm512_insertf32x8(_mm512_set1_ps(half_at(block)), _mm256_set1_ps(half_at(block + 2)), 1);
  Broadcastable<16> scales;
  _mm512_store_ps(
      scales.of,
      _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(k_scale_codes(block))), factors));
  scales.settle();
  return scales;
}

struct Q4_K : BlockUnpacker<256, 144> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = k_scales(block);
    const auto weights_of = [&](int j) __attribute__((always_inline)) {
      return _mm512_fmsub_ps(numbers_from(0), _mm512_set1_ps(scales.of[j]),
                             _mm512_set1_ps(scales.of[8 + j]));
    };
#pragma GCC unroll 4
    for (int j = 0; j < 8; j += 2) {
      const __m512i first = widen_16_bytes(block + 16 + 16 * j);
      const __m512i second = widen_16_bytes(block + 32 + 16 * j);
      const __m512 even = weights_of(j);
      emit(2 * j, look_up_low(first, even));
      emit(2 * j + 1, look_up_low(second, even));
      const __m512 odd = weights_of(j + 1);
      emit(2 * j + 2, look_up_high(first, odd));
      emit(2 * j + 3, look_up_high(second, odd));
    }
    block += kBytes;
  }
};

struct Q6_K : BlockUnpacker<256, 210> {
  using BlockUnpacker::BlockUnpacker;

  // d scale_i for the 16 groups of 16.
  [[gnu::always_inline]] Broadcastable<16> group_scales() const {
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 192));
    Broadcastable<16> scales;
    _mm512_store_ps(scales.of, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(packed)),
                                             _mm512_set1_ps(half_at(block + 208))));
    scales.settle();
    return scales;
  }

  // q - 32 of columns [128 n + 32 s, + 32), as signed bytes.
  [[gnu::always_inline]] __m256i codes(int n, int s) const {
    const auto* low_at = reinterpret_cast<const __m256i*>(block + 64 * n + 32 * (s % 2));
    const auto* high_at = reinterpret_cast<const __m256i*>(block + 128 + 32 * n);
    const __m256i low = _mm256_srli_epi16(_mm256_loadu_si256(low_at), s / 2 * 4);
    const __m256i high = _mm256_loadu_si256(high_at);
    // Bits 2s and 2s + 1 of `high` go to bits 4 and 5.
    const __m256i moved =
        s < 2 ? _mm256_slli_epi16(high, 4 - 2 * s) : _mm256_srli_epi16(high, 2 * s - 4);
    const __m256i q = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(0x0F)),
                                      _mm256_and_si256(moved, _mm256_set1_epi8(0x30)));
    return _mm256_sub_epi8(q, _mm256_set1_epi8(32));
  }

  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = group_scales();
    const auto emit_16 = [&](int i, __m128i bytes) __attribute__((always_inline)) {
      const __m512 q = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
      emit(i, _mm512_mul_ps(q, _mm512_set1_ps(scales.of[i])));
    };
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const __m256i q = codes(i / 4, i % 4);
      emit_16(2 * i, _mm256_castsi256_si128(q));
      emit_16(2 * i + 1, _mm256_extracti128_si256(q, 1));
    }
    block += kBytes;
  }
};

}  // namespace

void add_ggml_kernels_avx512(ExactKernels& kernels) {
  add_kernels<Q4_0>(kernels, Format::kQ4_0);
  add_kernels<Q4_1>(kernels, Format::kQ4_1);
  add_kernels<Q8_0>(kernels, Format::kQ8_0);
  add_kernels<Q4_K>(kernels, Format::kQ4_K);
  add_kernels<Q6_K>(kernels, Format::kQ6_K);
}

}  // namespace penstock
