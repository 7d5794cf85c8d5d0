#include <fmt/format.h>

#include <string>
#include <vector>

#include "cuda/fake_driver.h"
#include "kernels/gpu/gpu_reference.h"
#include "kernels/matmul/matmul_gpu.h"
#include "kernels/rms_norm/norm_ref.h"

namespace penstock {
namespace {

void multiply(Format format, const FakeKernelCall& call, std::span<const uint16_t> x,
              int64_t x_stride) {
  const auto shape = call.value<GpuMatrixShape>(2);
  const MatrixView w =
      view_of(format, shape, call.span<const std::byte>(0), call.span<const std::byte>(1));
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

void matmul(Format format, const FakeKernelCall& call) {
  multiply(format, call, call.span<const uint16_t>(3), call.value<int64_t>(4));
}

void matmul_few(Format format, const FakeKernelCall& call) {
  if (!call.span<const uint16_t>(3).empty()) return matmul(format, call);
  const auto cols = static_cast<size_t>(call.value<GpuMatrixShape>(2).cols);
  const auto stream = call.span<const float>(10);
  const auto stride = static_cast<size_t>(call.value<int64_t>(11));
  std::vector<float> normed(cols);
  std::vector<uint16_t> x;
  for (size_t t = 0; t < static_cast<size_t>(call.value<int32_t>(5)); ++t) {
    norm_row(stream.subspan(t * stride, cols), call.span<const float>(12).first(cols),
             call.value<float>(13), normed);
    for (const float value : normed) x.push_back(f32_to_bf16(value));
  }
  multiply(format, call, x, static_cast<int64_t>(cols));
}

}  // namespace

void add_matmul_stand_ins(FakeDriver& driver) {
  for_each_gpu_format([&](Format format, std::string_view name) {
    driver.add_kernel(fmt::format("matmul_{}", name),
                      [format](const FakeKernelCall& call) { matmul(format, call); });
    driver.add_kernel(fmt::format("matmul_few_{}", name),
                      [format](const FakeKernelCall& call) { matmul_few(format, call); });
  });
}

}  // namespace penstock
