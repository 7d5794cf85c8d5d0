#include "kernels/rms_norm/rms_norm_gpu.h"

namespace penstock {

Result<void> gpu_rms_norm(const GpuQueue& queue, GpuRows<const float> x,
                          DeviceSpan<const int32_t> from, DeviceSpan<const float> weight, float eps,
                          GpuRows<uint16_t> y16, GpuRows<float> y32) {
  if (y16.n_rows == 0) return {};
  constexpr uint32_t kThreads = 256;  // norm.cuh
  return queue.launch({.kernel = "rms_norm",
                       .grid = {static_cast<uint32_t>(y16.n_rows)},
                       .thread_block = {kThreads},
                       .waits_itself = true},
                      {x.data, x.stride, from, weight, eps, static_cast<int32_t>(y16.cols),
                       y16.data, y16.stride, y32.data, y32.stride});
}

}  // namespace penstock
