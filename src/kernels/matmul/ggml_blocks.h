// Unpackers of ggml's blocks of 32 (docs/formats.md): Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL.
// Included by ISA files after their codes_*.h, whose names they are written in.
#pragma once

#include "kernels/matmul/scales_x86.h"
#include "kernels/matmul/unpack_loops.h"

namespace penstock {
namespace {

template <int cols, int bytes>
struct BlockUnpacker {
  static constexpr int kCols = cols;
  static constexpr int kBytes = bytes;
  static constexpr bool kRagged = false;
  const uint8_t* block;

  BlockUnpacker(const StoredRows& w, int64_t row, int64_t begin)
      : block(w.data + static_cast<size_t>(row) * w.row_bytes + begin / cols * bytes) {}
};

template <int bits, class F>
[[gnu::always_inline]] inline Weights<bits, F> weights_of(F f) {
  return Weights<bits, F>(f);
}
// d (code - zero)
template <int bits, int zero>
[[gnu::always_inline]] inline auto scaled_codes(const float& d) {
  return weights_of<bits>([d = broadcast(d)](Floats code) __attribute__((always_inline)) {
    constexpr float kMinusZero = -zero;
    return mul(add(code, broadcast(kMinusZero)), d);
  });
}
// d code + m
template <int bits>
[[gnu::always_inline]] inline auto codes_plus(const float& d, const float& m) {
  return weights_of<bits>([d = broadcast(d), m = broadcast(m)](Floats code)
                              __attribute__((always_inline)) { return mul_add(code, d, m); });
}
// d code - m
template <int bits>
[[gnu::always_inline]] inline auto codes_minus(const float& d, const float& m) {
  return weights_of<bits>([d = broadcast(d), m = broadcast(m)](Floats code)
                              __attribute__((always_inline)) { return mul_sub(code, d, m); });
}

// d times numbers.
[[gnu::always_inline]] inline Lanes scaled(const Lanes& numbers, const float& d) {
  return lane_by_lane(
      [d = broadcast(d)](Floats x) __attribute__((always_inline)) { return mul(x, d); }, numbers);
}

alignas(64) constexpr float kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

// The 32 codes at `bytes`: the first 16 in the low nibbles.
template <class W, class Emit>
[[gnu::always_inline]] inline void emit_nibbles(const uint8_t* bytes, const W& weights, Emit emit) {
  const Codes codes = load_codes(bytes);
  emit(0, weights.of(codes));
  emit(1, weights.of_bare(shift_right<4>(codes)));
}
// The same with a fifth bit each, bit i of `fifth_bits` for code i.
template <class W, class Emit>
[[gnu::always_inline]] inline void emit_fives(const uint8_t* bytes, uint32_t fifth_bits,
                                              const W& weights, Emit emit) {
  const Codes codes = load_codes(bytes);
  emit(0, weights.of(pick_bits<15>(codes, to_bit_4<0>(fifth_bits))));
  emit(1, weights.of(pick_bits<15>(shift_right<4>(codes), to_bit_4<16>(fifth_bits))));
}

struct Q4_0 : BlockUnpacker<32, 18> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto d = two_halves(block);
    emit_nibbles(block + 2, scaled_codes<4, 8>(d.of[0]), emit);
    block += kBytes;
  }
};

struct Q4_1 : BlockUnpacker<32, 20> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto d_m = two_halves(block);
    emit_nibbles(block + 4, codes_plus<4>(d_m.of[0], d_m.of[1]), emit);
    block += kBytes;
  }
};

struct Q5_0 : BlockUnpacker<32, 22> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto d = two_halves(block);
    emit_fives(block + 6, word_at(block + 2), scaled_codes<5, 16>(d.of[0]), emit);
    block += kBytes;
  }
};

struct Q5_1 : BlockUnpacker<32, 24> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto d_m = two_halves(block);
    emit_fives(block + 8, word_at(block + 4), codes_plus<5>(d_m.of[0], d_m.of[1]), emit);
    block += kBytes;
  }
};

struct Q8_0 : BlockUnpacker<32, 34> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto d = two_halves(block);
    const auto* bytes = reinterpret_cast<const __m128i*>(block + 2);
    emit(0, scaled(numbers_of(_mm_loadu_si128(bytes)), d.of[0]));
    emit(1, scaled(numbers_of(_mm_loadu_si128(bytes + 1)), d.of[0]));
    block += kBytes;
  }
};

struct IQ4_NL : BlockUnpacker<32, 18> {
  using BlockUnpacker::BlockUnpacker;
  template <class Emit>
  [[gnu::always_inline]] void next(Emit emit) {
    const auto d = two_halves(block);
    emit_nibbles(block + 2, ListedWeights(kIq4Values, broadcast(d.of[0])), emit);
    block += kBytes;
  }
};

}  // namespace
}  // namespace penstock
