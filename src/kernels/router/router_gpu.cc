#include "kernels/router/router_gpu.h"

#include <fmt/format.h>

#include <string>

namespace penstock {

bool has_gpu_router(Format format) {
  return format == Format::kF32 || format == Format::kF16 || format == Format::kBF16;
}

GpuRouter gpu_router(const RouterSpec& spec, int n_experts, int top_k) {
  return {.n_experts = n_experts,
          .top_k = top_k,
          .sigmoid = spec.score == RouterScore::kSigmoid,
          .renormalize = spec.renormalize,
          .n_groups = spec.n_groups,
          .top_groups = spec.top_groups,
          .scale = static_cast<float>(spec.scale)};
}

Result<void> gpu_router_logits(const GpuQueue& queue, const GpuMatrix& w, GpuRows<const float> x,
                               DeviceSpan<float> logits) {
  constexpr uint32_t kExpertsPerBlock = 8;
  const std::string kernel = fmt::format("router_logits_{}", info(w.format).name);
  return queue.launch(
      {.kernel = kernel,
       .grid = {blocks_for(w.shape.rows, kExpertsPerBlock), static_cast<uint32_t>(x.n_rows)},
       .thread_block = {32 * kExpertsPerBlock},
       .waits_itself = true},
      {w.data, x.data, x.stride, w.shape.cols, w.shape.rows, w.shape.scale, logits});
}

Result<void> gpu_router_choose(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                               DeviceSpan<const float> logits, DeviceSpan<const float> bias,
                               DeviceSpan<int32_t> experts, DeviceSpan<float> weights) {
  constexpr uint32_t kBytesPerExpert = 2 * sizeof(float) + 1;  // score, choice, taken
  return queue.launch({.kernel = "router_choose",
                       .grid = {static_cast<uint32_t>(n_tokens)},
                       .thread_block = {32},
                       .shared_bytes = static_cast<uint32_t>(router.n_experts) * kBytesPerExpert,
                       .waits_itself = true},
                      {router, logits, bias, experts, weights});
}

Result<void> gpu_router_group(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                              DeviceSpan<const int32_t> experts, DeviceSpan<GpuExpertGroup> groups,
                              DeviceSpan<int32_t> n_groups, DeviceSpan<int32_t> row_of,
                              DeviceSpan<int32_t> token_of) {
  constexpr uint32_t kThreads = 256;
  return queue.launch({.kernel = "router_group",
                       .thread_block = {kThreads},
                       .shared_bytes = static_cast<uint32_t>(router.n_experts * sizeof(int32_t)),
                       .waits_itself = true},
                      {experts, static_cast<int32_t>(n_tokens * router.top_k), router.top_k,
                       router.n_experts, groups, n_groups, row_of, token_of});
}

}  // namespace penstock
