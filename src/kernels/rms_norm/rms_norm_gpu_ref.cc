#include <vector>

#include "cuda/fake_driver.h"
#include "kernels/gpu/gpu_reference.h"
#include "kernels/rms_norm/norm_ref.h"
#include "kernels/rms_norm/rms_norm_gpu.h"

namespace penstock {
namespace {

void rms_norm(const FakeKernelCall& call) {
  const auto x = call.span<const float>(0);
  const auto x_stride = call.value<int64_t>(1);
  const auto from = call.span<const int32_t>(2);
  const auto weight = call.span<const float>(3);
  const auto eps = call.value<float>(4);
  const auto cols = call.value<int32_t>(5);
  const auto y16 = call.span<uint16_t>(6);
  const auto y16_stride = call.value<int64_t>(7);
  const auto y32 = call.span<float>(8);
  const auto y32_stride = call.value<int64_t>(9);
  std::vector<float> y(static_cast<size_t>(cols));
  for (int64_t row = 0; row < call.launch().grid.x; ++row) {
    const int64_t of = from.empty() ? row : from[static_cast<size_t>(row)];
    norm_row(x.subspan(static_cast<size_t>(of * x_stride), y.size()), weight.first(y.size()), eps,
             y);
    for (size_t i = 0; i < y.size(); ++i) {
      y16[static_cast<size_t>(row * y16_stride) + i] = f32_to_bf16(y[i]);
      if (!y32.empty()) y32[static_cast<size_t>(row * y32_stride) + i] = y[i];
    }
  }
}

}  // namespace

void add_rms_norm_stand_ins(FakeDriver& driver) { driver.add_kernel("rms_norm", rms_norm); }

}  // namespace penstock
