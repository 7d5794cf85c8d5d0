// What the scalar references of GPU kernels share: numbers as the class `gpu` takes them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/function_ref.h"
#include "kernels/gpu/gpu_matrix.h"
#include "tensor/codec.h"
#include "tensor/format.h"
#include "tensor/scalar_types.h"

namespace penstock {

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
