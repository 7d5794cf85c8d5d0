// A router on a GPU: its logits, each token's choice, and the step's assignments grouped by expert.
#pragma once

#include "base/result.h"
#include "checkpoint/model_spec.h"
#include "kernels/gpu/gpu_queue.h"
#include "kernels/matmul/matmul_gpu.h"
#include "kernels/rms_norm/rms_norm_gpu.h"
#include "kernels/router/gpu_router.h"

namespace penstock {

class FakeDriver;

// Whether gpu_router_logits takes weights of that format.
bool has_gpu_router(Format format);
GpuRouter gpu_router(const RouterSpec& spec, int n_experts, int top_k);

// logits[t] = W x[t], all in float32: a router decides more than it computes.  w [n_experts,
// hidden]
Result<void> gpu_router_logits(const GpuQueue& queue, const GpuMatrix& w, GpuRows<const float> x,
                               DeviceSpan<float> logits);
// Where a step's routing goes: experts, weights, row_of, token_of [n_tokens, top_k]; groups at
// least min(n_tokens * top_k, n_experts) of the n_experts there are; n_groups one number.
struct GpuRouting {
  DeviceSpan<const int32_t> slots = {};  // [n_experts], where each is: read
  DeviceSpan<int32_t> experts = {};
  DeviceSpan<float> weights = {};
  DeviceSpan<GpuExpertGroup> groups = {};
  DeviceSpan<int32_t> n_groups = {};
  DeviceSpan<int32_t> row_of = {}, token_of = {};
};

// How a step that is queued as a whole gets experts which are cached: a layer's `slots` are -1 for
// those that have none.
struct GpuExpertCalls {
  DeviceSpan<GpuExpertMailbox> mailbox = {};  // empty: every expert has a slot
  DeviceSpan<int32_t> log =
      {};  // [kGpuMostLogged], of the layer: what its tokens chose, always written
  DeviceSpan<uint32_t> counter = {};  // of requests, the device's own
  int32_t layer = 0;
};

// Chooses as route() of router.h does, but for the precision of exp and sums: equals up to what a
// tie is; then groups the assignments: groups ascend by expert, and where a token stands among its
// expert's rows is left open. `calls`, for at most kGpuRouterTokens tokens and kGpuMostLogged
// assignments, has the kernel wait for experts without a slot. At most kGpuMostExperts,
// kGpuMostChoices and 32 groups of experts. logits [n_tokens, n_experts], bias [n_experts] or empty
Result<void> gpu_route(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                       DeviceSpan<const float> logits, DeviceSpan<const float> bias,
                       const GpuRouting& routing, const GpuExpertCalls& calls = {});
// All of it for few tokens, from the stream on, with the bits of gpu_rms_norm, gpu_router_logits
// and gpu_route: at most kGpuRouterTokens tokens. Where it goes besides: h [n_tokens, hidden], the
// normed rows as bf16; logits [n_tokens, n_experts]; arrived, one number that is 0 before and
// after.
struct GpuRouterInput {
  GpuMatrix matrix = {};
  GpuNormed x = {};
  GpuRows<uint16_t> h = {};
  DeviceSpan<float> logits = {};
  DeviceSpan<int32_t> arrived = {};
};
Result<void> gpu_norm_route(const GpuQueue& queue, const GpuRouterInput& input,
                            const GpuRouter& router, DeviceSpan<const float> bias,
                            const GpuRouting& routing, const GpuExpertCalls& calls = {});
// gpu_route's first half: routing.experts and routing.weights.
Result<void> gpu_router_choose(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                               DeviceSpan<const float> logits, DeviceSpan<const float> bias,
                               const GpuRouting& routing);
// Its second half, of experts that were chosen elsewhere.
Result<void> gpu_router_group(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                              const GpuRouting& routing);

void add_router_stand_ins(FakeDriver& driver);

}  // namespace penstock
