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

namespace {

constexpr uint32_t kSplitThreads = 128;  // of the kernel for heads of any size
constexpr uint32_t kPageThreads = 256;   // of those for 64 and 128 numbers

// Of 8 heads: queries, padded to 16 numbers; what half of the keys give; a number a key.
uint32_t split_shared_bytes(const GpuAttentionShape& shape) {
  constexpr int kHeads = 8;
  const int numbers = kHeads * (round_up(shape.head_dim, 16) + shape.head_dim + kGpuSplitKeys);
  return static_cast<uint32_t>(static_cast<size_t>(numbers) * sizeof(float));
}

Result<void> combine(const GpuQueue& queue, const GpuAttentionShape& shape,
                     const GpuStepTokens& step, GpuSplits splits, DeviceSpan<const float> part,
                     DeviceSpan<const float> stats, GpuRows<uint16_t> out) {
  constexpr uint32_t kThreads = 128;
  return queue.launch(
      {.kernel = "attention_combine",
       .grid = {static_cast<uint32_t>(shape.n_heads), static_cast<uint32_t>(step.n_tokens)},
       .thread_block = {kThreads},
       .waits_itself = true},
      {shape, step.tokens, part, stats, static_cast<int32_t>(splits.n), out.data, out.stride});
}

}  // namespace

Result<void> gpu_attention(const GpuQueue& queue, const GpuAttentionShape& shape,
                           const GpuStepTokens& step, DeviceSpan<const float> q, const GpuKv& kv,
                           GpuSplits splits, DeviceSpan<float> part, DeviceSpan<float> stats,
                           GpuRows<uint16_t> out) {
  // The usual sizes have kernels of their own.
  const std::string_view kernel = shape.head_dim == 128  ? "attention_split_128"
                                  : shape.head_dim == 64 ? "attention_split_64"
                                                         : "attention_split";
  const bool is_usual = has_gpu_attention_newest(shape.head_dim);
  PENSTOCK_TRY(queue.launch(
      {.kernel = kernel,
       .grid = {static_cast<uint32_t>(splits.n), static_cast<uint32_t>(shape.n_kv_heads),
                blocks_for(step.n_tokens, is_usual ? kGpuSplitTokens : 1)},
       .thread_block = {is_usual ? kPageThreads : kSplitThreads},
       .shared_bytes = is_usual ? 0 : split_shared_bytes(shape),
       .waits_itself = true},
      {shape, q, step.tokens, static_cast<int32_t>(step.n_tokens), step.pages,
       DeviceSpan<const uint16_t>(kv.pages), kv.page_numbers, part, stats,
       static_cast<int32_t>(splits.n)}));
  return combine(queue, shape, step, splits, part, stats, out);
}

bool has_gpu_attention_newest(int head_dim) { return head_dim == 64 || head_dim == 128; }

Result<void> gpu_attention_newest(const GpuQueue& queue, const GpuAttentionShape& shape,
                                  const GpuStepTokens& step, const GpuAttentionInput& input,
                                  const GpuKv& kv, GpuSplits splits, DeviceSpan<float> part,
                                  DeviceSpan<float> stats, DeviceSpan<int32_t> arrived,
                                  GpuRows<uint16_t> out) {
  // More are added by many thread blocks sooner than by the one that ended last.
  constexpr int64_t kMostCombined = 32;
  const bool combines = splits.n <= kMostCombined;
  PENSTOCK_TRY(queue.launch(
      {.kernel = shape.head_dim == 128 ? "attention_newest_128" : "attention_newest_64",
       .grid = {static_cast<uint32_t>(splits.n), static_cast<uint32_t>(shape.n_kv_heads),
                static_cast<uint32_t>(step.n_tokens)},
       .thread_block = {kPageThreads},
       .waits_itself = true},
      {shape, input.q, input.k, input.v, input.q_norm, input.k_norm, step.angles, step.tokens,
       step.pages, kv.pages, kv.page_numbers, part, stats, static_cast<int32_t>(splits.n),
       combines ? arrived : DeviceSpan<int32_t>{}, out.data, out.stride}));
  if (combines) return {};
  return combine(queue, shape, step, splits, part, stats, out);
}

Result<void> gpu_copy_page(const GpuQueue& queue, const GpuKv& kv, int32_t from, int32_t to) {
  constexpr uint32_t kThreads = 256;
  constexpr uint32_t kBlocks = 64;
  return queue.launch(
      {.kernel = "copy_page", .grid = {kBlocks}, .thread_block = {kThreads}, .waits_itself = true},
      {kv.pages, kv.page_numbers, from, to});
}

}  // namespace penstock
