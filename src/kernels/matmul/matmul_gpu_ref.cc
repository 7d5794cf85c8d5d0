#include <fmt/format.h>

#include <string>
#include <vector>

#include "cuda/fake_driver.h"
#include "kernels/gpu/gpu_reference.h"
#include "kernels/matmul/matmul_gpu.h"

namespace penstock {
namespace {

void matmul(Format format, const FakeKernelCall& call) {
  const auto shape = call.value<GpuMatrixShape>(2);
  const MatrixView w =
      view_of(format, shape, call.span<const std::byte>(0), call.span<const std::byte>(1));
  const auto x = call.span<const uint16_t>(3);
  const auto x_stride = call.value<int64_t>(4);
  const auto n_tokens = call.value<int32_t>(5);
  const auto bias = call.span<const float>(6);
  const auto y = call.span<float>(7);
  const auto y_stride = call.value<int64_t>(8);
  const bool adds = call.value<int32_t>(9) != 0;
  std::vector<float> row(static_cast<size_t>(shape.cols));
  for (int32_t r = 0; r < shape.rows; ++r) {
    widen_row_bf16(w, r, row);
    for (int32_t t = 0; t < n_tokens; ++t) {
      double sum = dot_bf16(row, x.subspan(static_cast<size_t>(t * x_stride))) * shape.scale;
      if (!bias.empty()) sum += bias[static_cast<size_t>(r)];
      float& to = y[static_cast<size_t>(t * y_stride + r)];
      to = static_cast<float>(adds ? to + sum : sum);
    }
  }
}

}  // namespace

void add_matmul_stand_ins(FakeDriver& driver) {
  for_each_gpu_format([&](Format format, std::string_view name) {
    for (const int tiles : {1, 8}) {
      driver.add_kernel(fmt::format("matmul_{}_{}", name, tiles),
                        [format](const FakeKernelCall& call) { matmul(format, call); });
    }
  });
}

}  // namespace penstock
