#include "kernels/attention/attention_gpu.h"

#include "base/integers.h"

namespace penstock {

Result<void> gpu_attention_store(const GpuQueue& queue, const GpuAttentionShape& shape,
                                 const GpuStepTokens& step, DeviceSpan<float> q,
                                 DeviceSpan<float> k, DeviceSpan<const float> v,
                                 DeviceSpan<const float> q_norm, DeviceSpan<const float> k_norm,
                                 const GpuKv& kv) {
  constexpr uint32_t kHeadsPerBlock = 4;
  return queue.launch({.kernel = "attention_store",
                       .grid = {static_cast<uint32_t>(step.n_tokens),
                                blocks_for(shape.n_heads + 2 * shape.n_kv_heads, kHeadsPerBlock)},
                       .thread_block = {32 * kHeadsPerBlock},
                       .waits_itself = true},
                      {shape, q, k, v, q_norm, k_norm, step.angles, step.tokens, step.pages,
                       kv.pages, kv.page_numbers});
}

Result<void> gpu_attention(const GpuQueue& queue, const GpuAttentionShape& shape,
                           const GpuStepTokens& step, DeviceSpan<const float> q, const GpuKv& kv,
                           GpuSplits splits, DeviceSpan<float> part, DeviceSpan<float> stats,
                           GpuRows<uint16_t> out) {
  constexpr uint32_t kSplitThreads = 128;
  constexpr uint32_t kCombineThreads = 128;
  const auto n_splits = static_cast<uint32_t>(splits.n);
  const auto n_tokens = static_cast<uint32_t>(step.n_tokens);
  // Of 8 heads: queries, padded to 16 numbers; what half of the keys give; a number a key.
  constexpr int kHeads = 8;
  const int shared_numbers =
      kHeads * (round_up(shape.head_dim, 16) + shape.head_dim + kGpuSplitKeys);
  // The usual sizes have kernels of their own.
  const std::string_view kernel = shape.head_dim == 128  ? "attention_split_128"
                                  : shape.head_dim == 64 ? "attention_split_64"
                                                         : "attention_split";
  PENSTOCK_TRY(queue.launch(
      {.kernel = kernel,
       .grid = {n_splits, static_cast<uint32_t>(shape.n_kv_heads), n_tokens},
       .thread_block = {kSplitThreads},
       .shared_bytes = static_cast<uint32_t>(static_cast<size_t>(shared_numbers) * sizeof(float)),
       .waits_itself = true},
      {shape, q, step.tokens, step.pages, DeviceSpan<const uint16_t>(kv.pages), kv.page_numbers,
       part, stats, static_cast<int32_t>(splits.n)}));
  return queue.launch(
      {.kernel = "attention_combine",
       .grid = {static_cast<uint32_t>(shape.n_heads), n_tokens},
       .thread_block = {kCombineThreads},
       .waits_itself = true},
      {shape, step.tokens, DeviceSpan<const float>(part), DeviceSpan<const float>(stats),
       static_cast<int32_t>(splits.n), out.data, out.stride});
}

Result<void> gpu_copy_page(const GpuQueue& queue, const GpuKv& kv, int32_t from, int32_t to) {
  constexpr uint32_t kThreads = 256;
  constexpr uint32_t kBlocks = 64;
  return queue.launch(
      {.kernel = "copy_page", .grid = {kBlocks}, .thread_block = {kThreads}, .waits_itself = true},
      {kv.pages, kv.page_numbers, from, to});
}

}  // namespace penstock
