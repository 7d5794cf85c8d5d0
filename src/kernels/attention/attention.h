// Causal attention of a run of tokens of one sequence over its paged keys and values, in the exact
// class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/integers.h"
#include "cpu/isa.h"
#include "tensor/rows.h"

namespace penstock {

inline constexpr int64_t kPageTokens = 64;  // tokens in a KV page

// KV pages that hold n_tokens.
constexpr int64_t pages_for(int64_t n_tokens) { return ceil_div(n_tokens, kPageTokens); }

// One layer's keys and values of one sequence, as pages. Page p holds positions [p * kPageTokens,
// (p + 1) * kPageTokens): keys[p] and values[p] point to [n_kv_heads, kPageTokens, head_dim] f32.
// Pages no token sees may be null.
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

// For each head h of `heads` (its kv head is h / (n_heads / n_kv_heads)) and each token t, at
// position i = first_position + t:
//   s_j = scale * dot(q[t, h], k_j)           for visible j
//   m   = max(s_j, sink)                      over visible j, and the head's sink if there are any
//   e_j = exp(s_j - m)                        kernels/exp.h
//   y[t, h, d] = (sum_j e_j v_j[d]) / (sum_j e_j + exp(sink - m))
// Vaswani et al., arXiv:1706.03762; the sink is a score without a value: arXiv:2309.17453.
//   q, y     [n_tokens, n_heads * head_dim] f32; only the columns of `heads` are written
//   kv       holds positions [0, first_position + n_tokens); what no token sees is never used, so
//            it may be anything
//   sinks    [n_heads] f32, or empty
//   scratch  at least attention_scratch_floats(...) floats, for this worker alone
//
// Exact class; every operation is rounded to float32:
//   dot       16 virtual lanes, lane = element mod 16 (kernels/matmul/matmul.h), then times scale
//   sum_j e_j 16 virtual lanes, lane = position mod 16: each starts from +0 and adds its visible j
//             in ascending order; the lanes are added in halves, and exp(sink - m) is added last
//   sum_j e_j v_j[d]  for each page with a visible key, in ascending order: an fma chain from +0
//             over the page's visible keys in ascending order, added to the total, which starts
//             from +0
// Keys and pages no token sees take no part at all. So the result is bit-equal for any batch,
// chunk, page placement, split of heads and isa.
void attention_exact(Isa isa, const AttentionShape& shape, Range heads, Rows<const float> q,
                     int64_t first_position, const PagedKv& kv, std::span<const float> sinks,
                     std::span<float> scratch, Rows<float> y);
void attention_exact_ref(const AttentionShape& shape, Range heads, Rows<const float> q,
                         int64_t first_position, const PagedKv& kv, std::span<const float> sinks,
                         Rows<float> y);

// Scratch for calls of up to n_tokens tokens that end at or before position n_positions. It holds
// the scores of as many tokens as fit in 2 MiB over all the positions they see (at least one
// token, at most 16), because the maximum is taken before any exp.
size_t attention_scratch_floats(const AttentionShape& shape, int64_t n_tokens, int64_t n_positions);

}  // namespace penstock
