#include "kernels/gpu/gpu_reference.h"

#include <array>

#include "kernels/matmul/matmul_gpu.h"

namespace penstock {

void for_each_gpu_format(FunctionRef<void(Format, std::string_view)> f) {
  for (const Format format :
       {Format::kF32, Format::kF16, Format::kBF16, Format::kQ4_0, Format::kQ4_1, Format::kQ8_0,
        Format::kQ4_K, Format::kQ6_K, Format::kNvfp4, Format::kMxfp4, Format::kFp8Block}) {
    f(format, *gpu_format_name({.format = format, .group_cols = 16}));
  }
}

MatrixView view_of(Format format, const GpuMatrixShape& shape, std::span<const std::byte> data,
                   std::span<const std::byte> scales) {
  // All FP8 has one name; a matrix without scales is kFp8Tensor.
  if (format == Format::kFp8Block && scales.empty()) format = Format::kFp8Tensor;
  return {.format = format,
          .rows = shape.rows,
          .cols = shape.cols,
          .data = data,
          .scales = scales,
          .scale_format = static_cast<ScaleFormat>(shape.scale_format),
          .group_cols = shape.block_cols,
          .block_rows = shape.block_rows};
}

void widen_row_bf16(const MatrixView& w, int64_t row, std::span<float> out) {
  widen_row(w, row, out);
  for (float& weight : out) weight = bf16_to_f32(f32_to_bf16(weight));
}

double dot_bf16(std::span<const float> w, std::span<const uint16_t> x) {
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) sum += static_cast<double>(w[i]) * bf16_to_f32(x[i]);
  return sum;
}

}  // namespace penstock
