// Matrix products on a GPU, straight from the stored formats: the class `gpu` (docs/design.md
// section 6a).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "kernels/gpu/gpu_matrix.h"
#include "kernels/gpu/gpu_queue.h"
#include "kernels/rms_norm/rms_norm_gpu.h"
#include "tensor/format.h"

namespace penstock {

class FakeDriver;

// A stored matrix in device memory. Its spans begin on 16 bytes, and 16 bytes behind each can be
// read.
struct GpuMatrix {
  Format format = Format::kF32;
  ConstDeviceBytes data = {};
  ConstDeviceBytes scales = {};  // empty: formats without
  GpuMatrixShape shape = {};
};
inline constexpr size_t kGpuMatrixSlack = 16;  // behind its spans

// What kernels of that format are called; nothing where there are none, so that the model cannot
// run on a GPU: refused by name, not computed some other way.
std::optional<std::string_view> gpu_format_name(const MatrixView& matrix);
// Of a matrix that has a name.
GpuMatrixShape gpu_shape(const MatrixView& matrix);

// y = W x + bias, or y += that.  x [n, cols] bf16, rows on 16 bytes; y [n, rows]; bias [rows] or
// empty. Weights widened and rounded once to bf16 (most formats need no rounding:
// kernels/gpu/codecs.cuh); products and sums float32, in an order that the matrix alone decides: a
// row of y does not depend on the others.
Result<void> gpu_matmul(const GpuQueue& queue, const GpuMatrix& w, GpuRows<const uint16_t> x,
                        DeviceSpan<const float> bias, GpuRows<float> y, bool adds);

// Whether a matrix is one that few tokens' kernels take: each row begins on 16 bytes and holds
// whole runs of what a lane reads. All usual ones are.
bool gpu_has_whole_rows(Format format, const GpuMatrixShape& shape);

// As gpu_matmul of what the norm leaves, rounded to bf16, and with the same bits: at once where
// can_norm_at_once() says so.
bool can_norm_at_once(const GpuMatrix& w, int64_t n_tokens);
Result<void> gpu_norm_matmul(const GpuQueue& queue, const GpuMatrix& w, const GpuNormed& x,
                             DeviceSpan<const float> bias, GpuRows<float> y, bool adds);

// Host code in place of the kernels, for a driver on host memory: the scalar reference, by
// tensor/codec.h.
void add_matmul_stand_ins(FakeDriver& driver);

}  // namespace penstock
