#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "cuda/fake_driver.h"
#include "kernels/gpu/gpu_reference.h"
#include "kernels/matmul/experts_gpu.h"

namespace penstock {
namespace {

// A layer's experts as the kernels are launched with them.
class Experts {
 public:
  Experts(Format format, const FakeKernelCall& call)
      : format_(format),
        pool_(call.span<const std::byte>(0)),
        slot_bytes_(call.value<uint64_t>(1)),
        factors_(call.span<const float>(2)) {}

  MatrixView matrix(const GpuExpertGroup& group, GpuExpertPart part,
                    const GpuMatrixShape& shape) const {
    const auto slot = pool_.subspan(static_cast<size_t>(group.slot) * slot_bytes_, slot_bytes_);
    const bool has_scales = shape.scale_row_bytes > 0;
    return view_of(format_, shape, slot.subspan(part.data),
                   has_scales ? slot.subspan(part.scales) : std::span<const std::byte>{});
  }
  float factor(int32_t expert, size_t which) const {
    return factors_[static_cast<size_t>(expert) * 3 + which];
  }

 private:
  Format format_;
  std::span<const std::byte> pool_;
  uint64_t slot_bytes_;
  std::span<const float> factors_;
};

void gate_up(Format format, const FakeKernelCall& call) {
  const Experts experts(format, call);
  const auto gate = call.value<GpuExpertPart>(3);
  const auto up = call.value<GpuExpertPart>(4);
  const auto shape = call.value<GpuMatrixShape>(5);
  const auto groups = call.span<const GpuExpertGroup>(6);
  const int32_t n_groups = call.span<const int32_t>(7)[0];
  const auto token_of = call.span<const int32_t>(8);
  const auto x = call.span<const uint16_t>(9);
  const auto x_stride = call.value<int64_t>(10);
  const auto act = call.span<uint16_t>(11);
  const auto act_stride = call.value<int64_t>(12);
  std::vector<float> gate_row(static_cast<size_t>(shape.cols)), up_row(gate_row.size());
  for (const GpuExpertGroup& group : groups.first(static_cast<size_t>(n_groups))) {
    const MatrixView gates = experts.matrix(group, gate, shape);
    const MatrixView ups = experts.matrix(group, up, shape);
    for (int32_t r = 0; r < shape.rows; ++r) {
      widen_row_bf16(gates, r, gate_row);
      widen_row_bf16(ups, r, up_row);
      for (int32_t i = group.first_row; i < group.first_row + group.n_rows; ++i) {
        const auto token =
            x.subspan(static_cast<size_t>(token_of[static_cast<size_t>(i)] * x_stride));
        const double g = dot_bf16(gate_row, token) * experts.factor(group.expert, 0);
        const double u = dot_bf16(up_row, token) * experts.factor(group.expert, 1);
        act[static_cast<size_t>(i * act_stride + r)] =
            f32_to_bf16(static_cast<float>(g / (1 + std::exp(-g)) * u));
      }
    }
  }
}

void down(Format format, const FakeKernelCall& call) {
  const Experts experts(format, call);
  const auto part = call.value<GpuExpertPart>(3);
  const auto shape = call.value<GpuMatrixShape>(4);
  const auto groups = call.span<const GpuExpertGroup>(5);
  const int32_t n_groups = call.span<const int32_t>(6)[0];
  const auto act = call.span<const uint16_t>(7);
  const auto act_stride = call.value<int64_t>(8);
  const auto y = call.span<float>(9);
  const auto y_stride = call.value<int64_t>(10);
  std::vector<float> row(static_cast<size_t>(shape.cols));
  for (const GpuExpertGroup& group : groups.first(static_cast<size_t>(n_groups))) {
    const MatrixView w = experts.matrix(group, part, shape);
    for (int32_t r = 0; r < shape.rows; ++r) {
      widen_row_bf16(w, r, row);
      for (int32_t i = group.first_row; i < group.first_row + group.n_rows; ++i) {
        const double sum = dot_bf16(row, act.subspan(static_cast<size_t>(i * act_stride)));
        y[static_cast<size_t>(i * y_stride + r)] =
            static_cast<float>(sum * experts.factor(group.expert, 2));
      }
    }
  }
}

void down_combine(Format format, const FakeKernelCall& call) {
  const Experts experts(format, call);
  const auto part = call.value<GpuExpertPart>(3);
  const auto shape = call.value<GpuMatrixShape>(4);
  const auto groups = call.span<const GpuExpertGroup>(5);
  const int32_t n_groups = call.span<const int32_t>(6)[0];
  const auto row_of = call.span<const int32_t>(7);
  const auto weights = call.span<const float>(8);
  const auto top_k = call.value<int32_t>(9);
  const auto n_tokens = call.value<int32_t>(10);
  const auto act = call.span<const uint16_t>(11);
  const auto act_stride = call.value<int64_t>(12);
  const auto x = call.span<float>(13);
  const auto x_stride = call.value<int64_t>(14);
  std::vector<float> row(static_cast<size_t>(shape.cols));
  std::vector<float> outputs(static_cast<size_t>(n_tokens * top_k));
  for (int32_t r = 0; r < shape.rows; ++r) {
    for (const GpuExpertGroup& group : groups.first(static_cast<size_t>(n_groups))) {
      widen_row_bf16(experts.matrix(group, part, shape), r, row);
      for (int32_t i = group.first_row; i < group.first_row + group.n_rows; ++i) {
        const double sum = dot_bf16(row, act.subspan(static_cast<size_t>(i * act_stride)));
        outputs[static_cast<size_t>(i)] = static_cast<float>(sum * experts.factor(group.expert, 2));
      }
    }
    for (int32_t t = 0; t < n_tokens; ++t) {
      float sum = 0;
      for (int32_t k = 0; k < top_k; ++k) {
        const auto i = static_cast<size_t>(t * top_k + k);
        sum += weights[i] * outputs[static_cast<size_t>(row_of[i])];
      }
      x[static_cast<size_t>(t * x_stride + r)] += sum;
    }
  }
}

void combine(const FakeKernelCall& call) {
  const auto y = call.span<const float>(0);
  const auto y_stride = call.value<int64_t>(1);
  const auto row_of = call.span<const int32_t>(2);
  const auto weights = call.span<const float>(3);
  const auto top_k = call.value<int32_t>(4);
  const auto x = call.span<float>(5);
  const auto x_stride = call.value<int64_t>(6);
  const auto cols = call.value<int32_t>(7);
  for (int64_t t = 0; t < call.launch().grid.y; ++t) {
    for (int64_t c = 0; c < cols; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < top_k; ++k) {
        const auto i = static_cast<size_t>(t * top_k + k);
        sum += weights[i] * y[static_cast<size_t>(row_of[i] * y_stride + c)];
      }
      x[static_cast<size_t>(t * x_stride + c)] += sum;
    }
  }
}

}  // namespace

void add_experts_stand_ins(FakeDriver& driver) {
  for_each_gpu_format([&](Format format, std::string_view name) {
    for (const char* few : {"", "few_"}) {
      driver.add_kernel(fmt::format("experts_gate_up_{}{}", few, name),
                        [format](const FakeKernelCall& call) { gate_up(format, call); });
    }
    driver.add_kernel(fmt::format("experts_down_{}", name),
                      [format](const FakeKernelCall& call) { down(format, call); });
    driver.add_kernel(fmt::format("experts_down_combine_{}", name),
                      [format](const FakeKernelCall& call) { down_combine(format, call); });
  });
  driver.add_kernel("experts_combine", combine);
}

}  // namespace penstock
