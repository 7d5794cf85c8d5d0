// Causal attention of one token's heads over paged keys and values, in the exact class.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/isa.h"
#include "tensor/rows.h"

namespace penstock {

inline constexpr int64_t kPageTokens = 64;  // tokens in a KV page

// One layer's keys and values of one sequence, as pages. Page p holds positions [p * kPageTokens,
// (p + 1) * kPageTokens): keys[p] and values[p] point to [n_kv_heads, kPageTokens, head_dim] f32.
struct PagedKv {
  std::span<const float* const> keys = {};
  std::span<const float* const> values = {};
};

struct AttentionShape {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  float scale = 0;     // of the scores: head_dim^-0.5 unless the family says otherwise
  int64_t window = 0;  // key j is visible to position i iff i - window < j <= i; 0: all j <= i
};

// For each head h of `heads` (kv head h / (n_heads / n_kv_heads)) and each token t at position
// first_position + t:
//   s_j = scale * dot(q[t, h], k_j);  p = softmax over visible j (and the sink, if any);  y[t, h] =
//   sum_j p_j v_j q, y  [n_tokens, n_heads * head_dim] f32;  sinks [n_heads] f32 or empty: a score
//   with no value scratch: at least attention_scratch_floats(...) floats, one worker's own
// Exact class: dots and the softmax denominator in 16 virtual lanes (lane = element, or key
// position, mod 16), the maximum first, exp from kernels/exp.h; values are summed per element in
// fma chains over the keys of one page, pages added in ascending order. Bit-equal for any batch,
// chunk, page placement, split of heads and isa.
void attention_exact(Isa isa, const AttentionShape& shape, Range heads, Rows<const float> q,
                     int64_t first_position, const PagedKv& kv, std::span<const float> sinks,
                     std::span<float> scratch, Rows<float> y);
void attention_exact_ref(const AttentionShape& shape, Range heads, Rows<const float> q,
                         int64_t first_position, const PagedKv& kv, std::span<const float> sinks,
                         Rows<float> y);

size_t attention_scratch_floats(const AttentionShape& shape, int64_t n_tokens, int64_t n_positions);

}  // namespace penstock
