// RMS norm on a GPU.
#pragma once

#include "base/result.h"
#include "kernels/gpu/gpu_queue.h"

namespace penstock {

class FakeDriver;

// Rows of a stream as their layer's norm leaves them: what kernels take that norm for themselves.
struct GpuNormed {
  GpuRows<const float> x = {};
  DeviceSpan<const float> weight = {};
  float eps = 0;
};

// y[i] = x[from[i]] / sqrt(mean(x^2) + eps) * weight, for the rows of y16; y32 (empty: not wanted)
// gets the same before it is rounded to bf16. `from` empty: row i is of row i.
Result<void> gpu_rms_norm(const GpuQueue& queue, GpuRows<const float> x,
                          DeviceSpan<const int32_t> from, DeviceSpan<const float> weight, float eps,
                          GpuRows<uint16_t> y16, GpuRows<float> y32);

void add_rms_norm_stand_ins(FakeDriver& driver);

}  // namespace penstock
