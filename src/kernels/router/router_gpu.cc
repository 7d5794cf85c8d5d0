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
  constexpr uint32_t kThreads = 128;
  const std::string kernel = fmt::format("router_logits_{}", info(w.format).name);
  return queue.launch(
      {.kernel = kernel,
       .grid = {static_cast<uint32_t>(w.shape.rows), blocks_for(x.n_rows, kGpuRouterTokens)},
       .thread_block = {kThreads},
       .waits_itself = true},
      {w.data, x.data, x.stride, w.shape.cols, w.shape.rows, static_cast<int32_t>(x.n_rows),
       w.shape.scale, logits});
}

namespace {

uint32_t shared_bytes_of(const GpuRouter& router) {
  return kGpuRouterTokens * static_cast<uint32_t>(router.n_experts) *
         static_cast<uint32_t>(sizeof(float));
}

}  // namespace

Result<void> gpu_route(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                       DeviceSpan<const float> logits, DeviceSpan<const float> bias,
                       const GpuRouting& routing, const GpuExpertCalls& calls) {
  if (n_tokens > kGpuRouterTokens) {
    PENSTOCK_TRY(gpu_router_choose(queue, router, n_tokens, logits, bias, routing));
    return gpu_router_group(queue, router, n_tokens, routing);
  }
  return queue.launch(
      {.kernel = "router_choose_and_group",
       .thread_block = {32 * kGpuRouterTokens},
       .waits_itself = true},
      {logits, router, static_cast<int32_t>(n_tokens), bias, routing.experts, routing.weights,
       routing.slots, routing.groups, routing.n_groups, routing.row_of, routing.token_of,
       calls.mailbox, calls.log, calls.counter, calls.layer});
}

Result<void> gpu_norm_route(const GpuQueue& queue, const GpuRouterInput& input,
                            const GpuRouter& router, DeviceSpan<const float> bias,
                            const GpuRouting& routing, const GpuExpertCalls& calls) {
  constexpr int64_t kExperts = 2;  // of a thread block
  const GpuMatrixShape& shape = input.matrix.shape;
  const GpuRows<const float>& x = input.x.x;
  return queue.launch(
      {.kernel = fmt::format("router_{}", info(input.matrix.format).name),
       .grid = {blocks_for(shape.rows, kExperts)},
       .thread_block = {32 * kGpuRouterTokens},
       .waits_itself = true},
      {input.matrix.data, x.data, x.stride, input.x.weight, input.x.eps, shape.cols, shape.scale,
       input.logits, input.h.data, input.h.stride, input.arrived,
       // As above.
       router, static_cast<int32_t>(x.n_rows), bias, routing.experts, routing.weights,
       routing.slots, routing.groups, routing.n_groups, routing.row_of, routing.token_of,
       calls.mailbox, calls.log, calls.counter, calls.layer});
}

Result<void> gpu_router_choose(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                               DeviceSpan<const float> logits, DeviceSpan<const float> bias,
                               const GpuRouting& routing) {
  return queue.launch(
      {.kernel = "router_choose",
       .grid = {blocks_for(n_tokens, kGpuRouterTokens)},
       .thread_block = {32 * kGpuRouterTokens},
       .shared_bytes = shared_bytes_of(router),
       .waits_itself = true},
      {router, static_cast<int32_t>(n_tokens), logits, bias, routing.experts, routing.weights});
}

Result<void> gpu_router_group(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                              const GpuRouting& routing) {
  constexpr uint32_t kThreads = 256;
  return queue.launch(
      {.kernel = "router_group",
       .thread_block = {kThreads},
       .shared_bytes =
           static_cast<uint32_t>(static_cast<size_t>(router.n_experts) * sizeof(int32_t)),
       .waits_itself = true},
      {DeviceSpan<const int32_t>(routing.experts), static_cast<int32_t>(n_tokens * router.top_k),
       router.top_k, router.n_experts, routing.slots, routing.groups, routing.n_groups,
       routing.row_of, routing.token_of});
}

}  // namespace penstock
