// A router on a GPU: its logits, each token's choice, and the step's assignments grouped by expert.
#pragma once

#include "base/result.h"
#include "checkpoint/model_spec.h"
#include "kernels/gpu/gpu_queue.h"
#include "kernels/matmul/matmul_gpu.h"
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
// As route() of router.h, but for the precision of exp and sums: equals up to what a tie is.
// logits [n_tokens, n_experts], bias [n_experts] or empty -> experts, weights [n_tokens, top_k]
Result<void> gpu_router_choose(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                               DeviceSpan<const float> logits, DeviceSpan<const float> bias,
                               DeviceSpan<int32_t> experts, DeviceSpan<float> weights);
// Groups ascend by expert; n_groups of them. Where a token stands among its expert's rows is left
// open. row_of, token_of: experts_gpu.h.
Result<void> gpu_router_group(const GpuQueue& queue, const GpuRouter& router, int64_t n_tokens,
                              DeviceSpan<const int32_t> experts, DeviceSpan<GpuExpertGroup> groups,
                              DeviceSpan<int32_t> n_groups, DeviceSpan<int32_t> row_of,
                              DeviceSpan<int32_t> token_of);

void add_router_stand_ins(FakeDriver& driver);

}  // namespace penstock
