#include "kernels/matmul/experts_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "kernels/gpu/tile_shape.h"

namespace penstock {
namespace {

std::string_view name_of(Format format, const GpuMatrixShape& shape) {
  return *gpu_format_name({.format = format, .group_cols = shape.block_cols});
}

uint32_t most_groups(const GpuAssignments& assignments) {
  return static_cast<uint32_t>(std::min<int64_t>(assignments.n_rows(), assignments.n_experts));
}

}  // namespace

Result<void> gpu_experts_gate_up(const GpuQueue& queue, const GpuExperts& experts,
                                 const GpuAssignments& assignments, GpuRows<const uint16_t> x,
                                 GpuRows<uint16_t> act) {
  const GpuMatrixShape& shape = experts.gate_up_shape;
  const bool are_few =
      assignments.n_tokens <= kGpuTileTokens && gpu_has_whole_rows(experts.format, shape);
  const auto n_tokens = static_cast<int>(assignments.n_tokens);
  return queue.launch({.kernel = fmt::format("experts_gate_up_{}{}", are_few ? "few_" : "",
                                             name_of(experts.format, shape)),
                       .grid = {blocks_for(shape.rows, kGpuTileRows), most_groups(assignments)},
                       .thread_block = {kGpuTileThreads},
                       .shared_bytes = are_few ? gpu_staged_bytes(n_tokens, shape.cols) : 0,
                       .waits_itself = true},
                      {experts.pool, experts.slot_bytes, experts.factors, experts.gate, experts.up,
                       shape, assignments.groups, assignments.n_groups, assignments.token_of,
                       x.data, x.stride, act.data, act.stride});
}

Result<void> gpu_experts_down(const GpuQueue& queue, const GpuExperts& experts,
                              const GpuAssignments& assignments, GpuRows<const uint16_t> act,
                              GpuRows<float> y) {
  const GpuMatrixShape& shape = experts.down_shape;
  return queue.launch(
      {.kernel = fmt::format("experts_down_{}", name_of(experts.down_format, shape)),
       .grid = {blocks_for(shape.rows, kGpuTileRows * kGpuTileWarps), most_groups(assignments)},
       .thread_block = {kGpuTileThreads},
       .waits_itself = true},
      {experts.pool, experts.slot_bytes, experts.factors, experts.down, shape, assignments.groups,
       assignments.n_groups, act.data, act.stride, y.data, y.stride});
}

Result<void> gpu_experts_combine(const GpuQueue& queue, const GpuAssignments& assignments,
                                 GpuRows<const float> y, GpuRows<float> x) {
  constexpr uint32_t kThreads = 256;
  return queue.launch({.kernel = "experts_combine",
                       .grid = {blocks_for(x.cols, kThreads), static_cast<uint32_t>(x.n_rows)},
                       .thread_block = {kThreads},
                       .waits_itself = true},
                      {y.data, y.stride, assignments.row_of, assignments.weights, assignments.top_k,
                       x.data, x.stride, static_cast<int32_t>(x.cols)});
}

bool can_combine_at_once(const GpuExperts& experts, const GpuAssignments& assignments) {
  // A warp reads the group of its own number, there or not.
  return assignments.n_tokens <= kGpuTileTokens && assignments.n_rows() <= kGpuMostCombined &&
         assignments.groups.size() >= kGpuTileWarps &&
         gpu_has_whole_rows(experts.down_format, experts.down_shape);
}

Result<void> gpu_experts_down_combine(const GpuQueue& queue, const GpuExperts& experts,
                                      const GpuAssignments& assignments,
                                      GpuRows<const uint16_t> act, GpuRows<float> x) {
  const GpuMatrixShape& shape = experts.down_shape;
  const std::string kernel =
      fmt::format("experts_down_combine_{}", name_of(experts.down_format, shape));
  return queue.launch(
      {.kernel = kernel,
       .grid = {blocks_for(shape.rows, kGpuTileRows)},
       .thread_block = {kGpuTileThreads},
       .waits_itself = true},
      {experts.pool, experts.slot_bytes, experts.factors, experts.down, shape, assignments.groups,
       assignments.n_groups, assignments.row_of, assignments.weights, assignments.top_k,
       static_cast<int32_t>(assignments.n_tokens), act.data, act.stride, x.data, x.stride});
}

}  // namespace penstock
