// What the scalar references of GPU kernels share: numbers as the class `gpu` takes them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/function_ref.h"
#include "kernels/gpu/gpu_matrix.h"
#include "tensor/codec.h"
#include "tensor/format.h"

namespace penstock {

inline float float_of_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// To nearest, ties to even.
inline uint16_t bf16_of_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Calls f for each format that GPU kernels know, once for each of their names.
void for_each_gpu_format(FunctionRef<void(Format, std::string_view)> f);

// The matrix that a kernel is launched with, without its factor.
MatrixView view_of(Format format, const GpuMatrixShape& shape, std::span<const std::byte> data,
                   std::span<const std::byte> scales);

// A row's weights, each rounded to bf16.
void widen_row_bf16(const MatrixView& w, int64_t row, std::span<float> out);

// In float64: the sum itself, as far as a test can tell.
double dot_bf16(std::span<const float> w, std::span<const uint16_t> x);

}  // namespace penstock
