#include "kernels/swiglu/swiglu_gpu.h"

#include "base/check.h"

namespace penstock {

Result<void> gpu_swiglu(const GpuQueue& queue, GpuRows<const float> gate, GpuRows<const float> up,
                        GpuRows<uint16_t> act) {
  PENSTOCK_CHECK(gate.stride == up.stride, "gate and up of one stride");
  if (act.n_rows == 0) return {};
  constexpr uint32_t kThreads = 256;
  return queue.launch(
      {.kernel = "swiglu",
       .grid = {static_cast<uint32_t>(act.n_rows)},
       .thread_block = {kThreads},
       .waits_itself = true},
      {gate.data, up.data, gate.stride, static_cast<int32_t>(act.cols), act.data, act.stride});
}

}  // namespace penstock
