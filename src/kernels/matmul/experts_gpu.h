// The routed experts of a step on a GPU: products with experts that lie in slots, for tokens
// grouped by expert.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/gpu/gpu_matrix.h"
#include "kernels/gpu/gpu_queue.h"
#include "kernels/matmul/matmul_gpu.h"

namespace penstock {

// One layer's experts: all of the same shapes and formats, each whole in a slot of the pool.
struct GpuExperts {
  Format format = Format::kF32;  // of gate and up
  Format down_format = Format::kF32;
  GpuMatrixShape gate_up_shape = {};            // [expert_dim, hidden]; factors are by expert
  GpuMatrixShape down_shape = {};               // [hidden, expert_dim]
  GpuExpertPart gate = {}, up = {}, down = {};  // in a slot
  ConstDeviceBytes pool = {};
  uint64_t slot_bytes = 0;               // a multiple of 16
  DeviceSpan<const float> factors = {};  // [n_experts, 3]: of gate, up and down
};

// A step's assignments of tokens to experts, as the router grouped them.
struct GpuAssignments {
  int64_t n_tokens = 0;
  int top_k = 0;
  int n_experts = 0;
  DeviceSpan<const GpuExpertGroup> groups = {};  // at least min(n_tokens * top_k, n_experts)
  DeviceSpan<const int32_t> n_groups = {};       // one number
  DeviceSpan<const int32_t> row_of = {};         // [n_tokens, top_k]: each assignment's row
  DeviceSpan<const int32_t> token_of = {};       // [n_tokens * top_k]: each row's token
  DeviceSpan<const float> weights = {};          // [n_tokens, top_k]

  int64_t n_rows() const { return n_tokens * top_k; }
};

// act[row] = silu(Wg x) * (Wu x) for each assignment's row.  x [n_tokens, hidden] bf16; act [rows,
// expert_dim] bf16. As gpu_matmul, so that a row depends on its token and its expert alone.
Result<void> gpu_experts_gate_up(const GpuQueue& queue, const GpuExperts& experts,
                                 const GpuAssignments& assignments, GpuRows<const uint16_t> x,
                                 GpuRows<uint16_t> act);
// y[row] = Wd act[row].  y [rows, hidden]
Result<void> gpu_experts_down(const GpuQueue& queue, const GpuExperts& experts,
                              const GpuAssignments& assignments, GpuRows<const uint16_t> act,
                              GpuRows<float> y);
// x[t] += sum over k of weight[t, k] * y[row_of[t, k]], in the order of k.
Result<void> gpu_experts_combine(const GpuQueue& queue, const GpuAssignments& assignments,
                                 GpuRows<const float> y, GpuRows<float> x);

// Both at once, where can_combine_at_once() says so: the same bits, sooner.
bool can_combine_at_once(const GpuExperts& experts, const GpuAssignments& assignments);
Result<void> gpu_experts_down_combine(const GpuQueue& queue, const GpuExperts& experts,
                                      const GpuAssignments& assignments,
                                      GpuRows<const uint16_t> act, GpuRows<float> x);

void add_experts_stand_ins(FakeDriver& driver);

}  // namespace penstock
