#include <cmath>

#include "cuda/fake_driver.h"
#include "kernels/gpu/gpu_reference.h"
#include "kernels/swiglu/swiglu_gpu.h"

namespace penstock {
namespace {

void swiglu(const FakeKernelCall& call) {
  const auto gate = call.span<const float>(0);
  const auto up = call.span<const float>(1);
  const auto stride = call.value<int64_t>(2);
  const auto cols = call.value<int32_t>(3);
  const auto act = call.span<uint16_t>(4);
  const auto act_stride = call.value<int64_t>(5);
  for (int64_t row = 0; row < call.launch().grid.x; ++row) {
    for (int64_t i = 0; i < cols; ++i) {
      const auto at = static_cast<size_t>(row * stride + i);
      const double g = gate[at];
      act[static_cast<size_t>(row * act_stride + i)] =
          f32_to_bf16(static_cast<float>(g / (1 + std::exp(-g)) * up[at]));
    }
  }
}

}  // namespace

void add_swiglu_stand_ins(FakeDriver& driver) { driver.add_kernel("swiglu", swiglu); }

}  // namespace penstock
