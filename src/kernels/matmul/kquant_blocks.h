// Unpackers of ggml's blocks of 256 (docs/formats.md): Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS.
// Included by ISA files after their codes_*.h, whose names they are written in.
#pragma once

#include "kernels/matmul/ggml_blocks.h"

namespace penstock {
namespace {

// 16 signed bytes times the half at `half`: the scales of groups.
[[gnu::always_inline]] inline Broadcastable<16> group_scales(__m128i bytes, const uint8_t* half) {
  Broadcastable<16> scales;
  store_lanes(scales.of, scaled(numbers_of(bytes), half_at(half)));
  scales.settle();
  return scales;
}

struct Q2_K : BlockUnpacker<256, 84> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block));
    const __m128i low_4 = _mm_set1_epi8(0x0F);
    const auto scales = group_scales(_mm_and_si128(packed, low_4), block + 80);
    const auto mins = group_scales(_mm_and_si128(_mm_srli_epi16(packed, 4), low_4), block + 82);
    repeat<2>([&](auto n) __attribute__((always_inline)) {
      const Codes first = load_codes(block + 16 + 32 * n.value);
      const Codes second = load_codes(block + 32 + 32 * n.value);
      repeat<4>([&](auto s) __attribute__((always_inline)) {
        constexpr int i = 8 * n.value + 2 * s.value;
        constexpr int kBit = 2 * s.value;
        emit(i, codes_minus<2>(scales.of[i], mins.of[i]).of(shift_right<kBit>(first)));
        emit(i + 1, codes_minus<2>(scales.of[i + 1], mins.of[i + 1]).of(shift_right<kBit>(second)));
      });
    });
    block += kBytes;
  }
};

struct Q3_K : BlockUnpacker<256, 110> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = group_scales(q3_k_scale_codes(block), block + 108);
    const Codes first_high = load_codes(block);
    const Codes second_high = load_codes(block + 16);
    repeat<2>([&](auto n) __attribute__((always_inline)) {
      const Codes first = load_codes(block + 32 + 32 * n.value);
      const Codes second = load_codes(block + 48 + 32 * n.value);
      repeat<4>([&](auto s) __attribute__((always_inline)) {
        constexpr int i = 8 * n.value + 2 * s.value;
        constexpr int kLowBits = 2 * s.value;
        constexpr int kHighBit = 4 * n.value + s.value;
        const auto codes = [](const Codes& low, const Codes& high) __attribute__((always_inline)) {
          return pick_bits<3>(shift_right<kLowBits>(low), shift_right<kHighBit - 2>(high));
        };
        emit(i, scaled_codes<3, 4>(scales.of[i]).of(codes(first, first_high)));
        emit(i + 1, scaled_codes<3, 4>(scales.of[i + 1]).of(codes(second, second_high)));
      });
    });
    block += kBytes;
  }
};

struct Q4_K : BlockUnpacker<256, 144> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = k_scales(block);
    repeat<4>([&](auto pair) __attribute__((always_inline)) {
      constexpr int j = 2 * pair.value;
      const Codes first = load_codes(block + 16 + int64_t{16} * j);
      const Codes second = load_codes(block + 32 + int64_t{16} * j);
      const auto even = codes_minus<4>(scales.of[j], scales.of[8 + j]);
      emit(2 * j, even.of(first));
      emit(2 * j + 1, even.of(second));
      const auto odd = codes_minus<4>(scales.of[j + 1], scales.of[9 + j]);
      emit(2 * j + 2, odd.of_bare(shift_right<4>(first)));
      emit(2 * j + 3, odd.of_bare(shift_right<4>(second)));
    });
    block += kBytes;
  }
};

struct Q5_K : BlockUnpacker<256, 176> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = k_scales(block);
    const Codes first_high = load_codes(block + 16);
    const Codes second_high = load_codes(block + 32);
    repeat<4>([&](auto pair) __attribute__((always_inline)) {
      const Codes first = load_codes(block + 48 + 32 * pair.value);
      const Codes second = load_codes(block + 64 + 32 * pair.value);
      repeat<2>([&](auto half) __attribute__((always_inline)) {
        constexpr int j = 2 * pair.value + half.value;
        constexpr int kLowBits = 4 * half.value;
        const auto codes = [](const Codes& low, const Codes& high) __attribute__((always_inline)) {
          return pick_bits<15>(shift_right<kLowBits>(low), shift_right<j - 4>(high));
        };
        const auto weights = codes_minus<5>(scales.of[j], scales.of[8 + j]);
        emit(2 * j, weights.of(codes(first, first_high)));
        emit(2 * j + 1, weights.of(codes(second, second_high)));
      });
    });
    block += kBytes;
  }
};

struct Q6_K : BlockUnpacker<256, 210> {
  using BlockUnpacker::BlockUnpacker;

  // q - 32 of columns [128 n + 32 s, + 32), as signed bytes.
  [[gnu::always_inline]] __m256i codes(int n, int s) const {
    const auto* low_at =
        reinterpret_cast<const __m256i*>(block + int64_t{64} * n + int64_t{32} * (s % 2));
    const auto* high_at = reinterpret_cast<const __m256i*>(block + 128 + int64_t{32} * n);
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
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 192));
    const auto scales = group_scales(packed, block + 208);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const __m256i q = codes(i / 4, i % 4);
      emit(2 * i, scaled(numbers_of(_mm256_castsi256_si128(q)), scales.of[int64_t{2} * i]));
      emit(2 * i + 1, scaled(numbers_of(_mm256_extracti128_si256(q, 1)), scales.of[2 * i + 1]));
    }
    block += kBytes;
  }
};

struct IQ4_XS : BlockUnpacker<256, 136> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto scales = iq4_xs_scales(block);
    repeat<8>([&](auto j) __attribute__((always_inline)) {
      const ListedWeights weights(kIq4Values, broadcast(scales.of[j.value]));
      emit_nibbles(block + 8 + 16 * j.value, weights,
                   [&](int half, const Lanes& lanes)
                       __attribute__((always_inline)) { emit(2 * j.value + half, lanes); });
    });
    block += kBytes;
  }
};

}  // namespace
}  // namespace penstock
