// Paged attention on a GPU: heads normed, turned and stored, then attended to in splits of a fixed
// number of keys.
#pragma once

#include "base/result.h"
#include "kernels/attention/gpu_shape.h"
#include "kernels/gpu/gpu_queue.h"

namespace penstock {

class FakeDriver;

inline constexpr int kMaxGpuHeadDim = 256;

// KV pages in device memory, bf16: [n_pages][n_layers][keys,
// values][n_kv_heads][kGpuPageTokens][head_dim].
struct GpuKv {
  DeviceSpan<uint16_t> pages = {};
  uint64_t page_numbers = 0;  // of all layers
};

// A step's tokens and where their sequences' pages are.
struct GpuStepTokens {
  int64_t n_tokens = 0;
  int32_t longest = 0;                     // highest position + 1
  DeviceSpan<const GpuToken> tokens = {};  // [n_tokens]
  DeviceSpan<const int32_t> pages = {};    // of all sequences, one after the other
  DeviceSpan<const float> angles = {};     // [n_tokens, 2, half]: cos, then sin
  bool are_newest = false;                 // each the newest of a sequence of its own
};

// Queries and keys, normed where there are weights [head_dim] for it, are turned by their token's
// angles; queries stay in q, keys and values go to their place in the pages. A head's numbers lie
// side by side: q [n_tokens, n_heads, head_dim], k and v [n_tokens, n_kv_heads, head_dim], at the
// shape's strides.
Result<void> gpu_attention_store(const GpuQueue& queue, const GpuAttentionShape& shape,
                                 const GpuStepTokens& step, DeviceSpan<float> q,
                                 DeviceSpan<float> k, DeviceSpan<const float> v,
                                 DeviceSpan<const float> q_norm, DeviceSpan<const float> k_norm,
                                 const GpuKv& kv);

// What the splits leave to be added, for `n_tokens` of at most `longest` keys.
struct GpuSplits {
  int64_t n = 0;  // of a token
  static GpuSplits of(int32_t longest) {
    return {.n = (longest + kGpuSplitKeys - 1) / kGpuSplitKeys};
  }
  size_t part_numbers(const GpuAttentionShape& shape, int64_t n_tokens) const {
    return stat_numbers(shape, n_tokens) / 2 * static_cast<size_t>(shape.head_dim);
  }
  size_t stat_numbers(const GpuAttentionShape& shape, int64_t n_tokens) const {
    return static_cast<size_t>(n_tokens) * static_cast<size_t>(shape.n_heads) *
           static_cast<size_t>(n) * 2;
  }
};

// out[t] = softmax(scale q[t] K^T) V over the keys that t sees: its own and earlier positions,
// within the window.  Queries, keys, values bf16, all else float32; keys [0, 256), [256, 512) ...
// are summed apart and then together, so a token's result depends on its own sequence alone. out
// [n_tokens, heads] bf16.
Result<void> gpu_attention(const GpuQueue& queue, const GpuAttentionShape& shape,
                           const GpuStepTokens& step, DeviceSpan<const float> q, const GpuKv& kv,
                           GpuSplits splits, DeviceSpan<float> part, DeviceSpan<float> stats,
                           GpuRows<uint16_t> out);

// gpu_attention_store and gpu_attention at once, with the same bits, for steps in which every token
// is the newest of a sequence of its own and heads of a size that has_gpu_attention_newest knows.
// q, k and v as the product left them; of q only what gpu_attention_store would write is missing.
// arrived [n_tokens, n_kv_heads]: 0 before and after.
bool has_gpu_attention_newest(int head_dim);
struct GpuAttentionInput {
  DeviceSpan<float> q = {};
  DeviceSpan<const float> k = {}, v = {};
  DeviceSpan<const float> q_norm = {}, k_norm = {};
};
Result<void> gpu_attention_newest(const GpuQueue& queue, const GpuAttentionShape& shape,
                                  const GpuStepTokens& step, const GpuAttentionInput& input,
                                  const GpuKv& kv, GpuSplits splits, DeviceSpan<float> part,
                                  DeviceSpan<float> stats, DeviceSpan<int32_t> arrived,
                                  GpuRows<uint16_t> out);

// In every layer.
Result<void> gpu_copy_page(const GpuQueue& queue, const GpuKv& kv, int32_t from, int32_t to);

void add_attention_stand_ins(FakeDriver& driver);

}  // namespace penstock
