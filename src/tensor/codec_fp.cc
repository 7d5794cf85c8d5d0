// Weights stored as floating-point numbers, with or without scales beside them.
#include "base/check.h"
#include "tensor/codec_parts.h"
#include "tensor/scalar_types.h"

namespace penstock {
namespace {

const uint8_t* bytes_of(std::span<const std::byte> span) {
  return reinterpret_cast<const uint8_t*>(span.data());
}

float scale_at(const MatrixView& m, int64_t i) {
  const uint8_t* scales = bytes_of(m.scales);
  switch (m.scale_format) {
    case ScaleFormat::kF32:
      return load_unaligned<float>(scales + 4 * i);
    case ScaleFormat::kBF16:
      return bf16_to_f32(load_unaligned<uint16_t>(scales + 2 * i));
    case ScaleFormat::kF16:
      return f16_to_f32(load_unaligned<uint16_t>(scales + 2 * i));
    case ScaleFormat::kE8M0:
      return e8m0_to_f32(scales[i]);
  }
  return 0;
}

// The factor of code [row, col], matrix.scale apart.
float fp8_scale(const MatrixView& m, int64_t row, int64_t col) {
  if (m.format == Format::kFp8Tensor) return 1.0F;
  if (m.format == Format::kFp8Channel) return scale_at(m, row);
  const int64_t blocks_per_row = (m.cols + m.group_cols - 1) / m.group_cols;
  return scale_at(m, row / m.block_rows * blocks_per_row + col / m.group_cols);
}

}  // namespace

void widen_plain(const MatrixView& m, int64_t row, Range cols, float* out) {
  const uint8_t* data = bytes_of(m.data);
  for (int64_t k = cols.begin; k < cols.end; ++k) {
    const int64_t i = row * m.cols + k;
    float& y = out[k - cols.begin];
    if (m.format == Format::kF32) {
      y = load_unaligned<float>(data + 4 * i);
    } else {
      const auto bits = load_unaligned<uint16_t>(data + 2 * i);
      y = m.format == Format::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    }
  }
}

void widen_fp4(const MatrixView& m, int64_t row, Range cols, float* out) {
  const int64_t group = info(m.format).group;
  for (int64_t k = cols.begin; k < cols.end; ++k) {
    const int64_t i = row * m.cols + k;
    const uint8_t pair = bytes_of(m.data)[i / 2];
    const uint8_t scale = bytes_of(m.scales)[i / group];
    const float code = e2m1_to_f32(k % 2 == 0 ? pair & 15u : pair >> 4);
    out[k - cols.begin] =
        code * (m.format == Format::kMxfp4 ? e8m0_to_f32(scale) : e4m3_to_f32(scale));
  }
}

void widen_fp8(const MatrixView& m, int64_t row, Range cols, float* out) {
  for (int64_t k = cols.begin; k < cols.end; ++k) {
    out[k - cols.begin] = e4m3_to_f32(bytes_of(m.data)[row * m.cols + k]) * fp8_scale(m, row, k);
  }
}

}  // namespace penstock
