// The small number types that weights and scales are stored in, each read as float32. All are
// exact.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

namespace penstock {

static_assert(std::endian::native == std::endian::little, "stored weights are little endian");

// Reads a T that needs no alignment.
template <class T>
T load_unaligned(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// IEEE binary16: s eeeee ffffffffff, bias 15, with subnormals, infinities and NaN.
constexpr float f16_to_f32(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide_exponent = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

// The upper half of a float32.
constexpr float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The nearest bf16, ties to even; a NaN stays one.
constexpr uint16_t f32_to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40u);  // quiet
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// OCP E4M3 ("fn"): s eeee mmm, bias 7; no infinities, 0x7F and 0xFF are NaN, the largest is 448.
constexpr float e4m3_to_f32(uint8_t bits) {
  const uint32_t exponent = (bits >> 3) & 15u;
  const uint32_t mantissa = bits & 7u;
  float magnitude = 0;
  if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-9F;
  } else if (exponent == 15 && mantissa == 7) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else {
    magnitude = std::bit_cast<float>((exponent + 127 - 7) << 23 | mantissa << 20);
  }
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

// E4M3 without a sign, as the scales inside GGUF's NVFP4 blocks: bit 7 is ignored, and the NaN code
// means 0.
constexpr float ue4m3_to_f32(uint8_t bits) {
  const uint8_t magnitude = bits & 0x7F;
  return magnitude == 0x7F ? 0.0F : e4m3_to_f32(magnitude);
}

// OCP E5M2: the upper byte of a binary16.
constexpr float e5m2_to_f32(uint8_t bits) {
  return f16_to_f32(static_cast<uint16_t>(static_cast<unsigned>(bits) << 8));
}

// OCP E2M1: s ee m in the low four bits of `code`.
constexpr float e2m1_to_f32(unsigned code) {
  constexpr float kMagnitudes[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kMagnitudes[code & 7u];
  return (code & 8u) != 0 ? -magnitude : magnitude;
}

// OCP E8M0: 2^(bits - 127), 255 is NaN.
constexpr float e8m0_to_f32(uint8_t bits) {
  if (bits == 0) return 0x1p-127F;  // below float32's normal numbers
  if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 23);
}

}  // namespace penstock
