#include "kernels/matmul/matmul_gpu.h"

#include <fmt/format.h>

#include <string>

#include "kernels/gpu/tile_shape.h"

namespace penstock {

std::optional<std::string_view> gpu_format_name(const MatrixView& matrix) {
  switch (matrix.format) {
    case Format::kF32:
      return "f32";
    case Format::kF16:
      return "f16";
    case Format::kBF16:
      return "bf16";
    case Format::kQ4_0:
      return "q4_0";
    case Format::kQ4_1:
      return "q4_1";
    case Format::kQ8_0:
      return "q8_0";
    case Format::kQ4_K:
      return "q4_k";
    case Format::kQ6_K:
      return "q6_k";
    case Format::kNvfp4:
      return "nvfp4";
    case Format::kMxfp4:
      return "mxfp4";
    case Format::kFp8Block:
      // A lane takes 16 columns with one scale.
      if (matrix.group_cols % 16 != 0) return std::nullopt;
      return "fp8";
    case Format::kFp8Tensor:
    case Format::kFp8Channel:
      return "fp8";
    default:
      return std::nullopt;
  }
}

namespace {

size_t number_bytes(ScaleFormat format) {
  switch (format) {
    case ScaleFormat::kF32:
      return 4;
    case ScaleFormat::kBF16:
    case ScaleFormat::kF16:
      return 2;
    case ScaleFormat::kE8M0:
      return 1;
  }
  return 1;
}

}  // namespace

GpuMatrixShape gpu_shape(const MatrixView& matrix) {
  GpuMatrixShape shape = {.rows = static_cast<int32_t>(matrix.rows),
                          .cols = static_cast<int32_t>(matrix.cols),
                          .row_bytes = static_cast<uint32_t>(row_bytes(matrix.format, matrix.cols)),
                          .scale_format = static_cast<int32_t>(matrix.scale_format),
                          .scale = matrix.scale};
  const auto cols = static_cast<uint32_t>(matrix.cols);
  const auto scale_bytes = static_cast<uint32_t>(number_bytes(matrix.scale_format));
  switch (matrix.format) {
    case Format::kNvfp4:
      shape.scale_row_bytes = cols / 16;
      break;
    case Format::kMxfp4:
      shape.scale_row_bytes = cols / 32;
      break;
    case Format::kFp8Block:
      shape.block_rows = matrix.block_rows;
      shape.block_cols = matrix.group_cols;
      shape.scale_row_bytes = (cols + matrix.group_cols - 1) / matrix.group_cols * scale_bytes;
      break;
    case Format::kFp8Channel:
      shape.block_cols = cols;
      shape.scale_row_bytes = scale_bytes;
      break;
    default:
      break;
  }
  return shape;
}

bool gpu_has_whole_rows(Format format, const GpuMatrixShape& shape) {
  int lane_cols = 0;  // Codec::kCols
  switch (format) {
    case Format::kF32:
    case Format::kF16:
    case Format::kBF16:
      lane_cols = 8;
      break;
    case Format::kFp8Tensor:
    case Format::kFp8Channel:
    case Format::kFp8Block:
      lane_cols = 16;
      break;
    case Format::kNvfp4:
    case Format::kMxfp4:
      lane_cols = 32;
      break;
    default:
      return true;  // whole blocks, which are read from any address
  }
  return shape.row_bytes % 16 == 0 && shape.cols % lane_cols == 0;
}

bool can_norm_at_once(const GpuMatrix& w, int64_t n_tokens) {
  return n_tokens <= kGpuTileTokens && gpu_has_whole_rows(w.format, w.shape);
}

namespace {

std::string_view name_of(const GpuMatrix& w) {
  return *gpu_format_name({.format = w.format, .group_cols = w.shape.block_cols});
}

// Either x or `normed` are the tokens.
Result<void> launch_few(const GpuQueue& queue, const GpuMatrix& w, GpuRows<const uint16_t> x,
                        const GpuNormed& normed, DeviceSpan<const float> bias, GpuRows<float> y,
                        bool adds) {
  const auto n_tokens = static_cast<int32_t>(y.n_rows);
  return queue.launch(
      {.kernel = fmt::format("matmul_few_{}", name_of(w)),
       .grid = {blocks_for(w.shape.rows, kGpuTileRows)},
       .thread_block = {kGpuTileThreads},
       .shared_bytes = gpu_staged_bytes(n_tokens, w.shape.cols),
       .waits_itself = true},
      {w.data, w.scales, w.shape, x.data, x.stride, n_tokens, bias, y.data, y.stride,
       static_cast<int32_t>(adds), normed.x.data, normed.x.stride, normed.weight, normed.eps});
}

}  // namespace

Result<void> gpu_matmul(const GpuQueue& queue, const GpuMatrix& w, GpuRows<const uint16_t> x,
                        DeviceSpan<const float> bias, GpuRows<float> y, bool adds) {
  if (x.n_rows == 0) return {};
  if (can_norm_at_once(w, x.n_rows)) return launch_few(queue, w, x, {}, bias, y, adds);
  return queue.launch({.kernel = fmt::format("matmul_{}", name_of(w)),
                       .grid = {blocks_for(w.shape.rows, kGpuTileRows),
                                blocks_for(x.n_rows, int64_t{kGpuTileTokens} * kGpuManyTiles)},
                       .thread_block = {kGpuTileThreads},
                       .waits_itself = true},
                      {w.data, w.scales, w.shape, x.data, x.stride, static_cast<int32_t>(x.n_rows),
                       bias, y.data, y.stride, static_cast<int32_t>(adds)});
}

Result<void> gpu_norm_matmul(const GpuQueue& queue, const GpuMatrix& w, const GpuNormed& x,
                             DeviceSpan<const float> bias, GpuRows<float> y, bool adds) {
  return launch_few(queue, w, {}, x, bias, y, adds);
}

}  // namespace penstock
