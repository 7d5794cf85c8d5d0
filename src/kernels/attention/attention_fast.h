// Causal attention of a run of tokens of one sequence over its paged keys and values, in the class
// `fast`: bf16 pages, an online softmax, bf16 products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu/isa.h"
#include "kernels/attention/attention.h"
#include "tensor/rows.h"

namespace penstock {

// One layer's keys and values of one sequence in bf16, as pages of kPageTokens positions:
//   keys[p]    [n_kv_heads, head_dim / 2, kPageTokens, 2]   two elements of a key side by side;
//              an odd dimension's last elements, [kPageTokens], lie behind their head's pairs
//   values[p]  [n_kv_heads, kPageTokens / 2, head_dim, 2]   two positions' values side by side
// AMX multiplies with both in place, and 16 lanes of positions (of elements) are one load. Pages no
// token sees may be null.
struct PagedKvBf16 {
  std::span<const uint16_t* const> keys = {};
  std::span<const uint16_t* const> values = {};
};

// Where element d of the key in place `slot` is among its head's kPageTokens * head_dim.
constexpr int64_t key_place(int64_t head_dim, int64_t slot, int64_t d) {
  return d / 2 < head_dim / 2 ? (d / 2 * kPageTokens + slot) * 2 + d % 2 : d * kPageTokens + slot;
}

// Writes one token's keys and values, [n_kv_heads, head_dim] f32 each, to place `slot` of a page,
// rounded to the nearest bf16 (ties to even). Stores this token's numbers only, so threads may
// write different tokens of a page at once.
void write_kv_bf16(const AttentionShape& shape, int64_t slot, std::span<const float> k,
                   std::span<const float> v, uint16_t* page_keys, uint16_t* page_values);

// For each head h of `heads` and each token t, at position i = first_position + t, with
// c = scale log2(e) rounded to float32:
//   a    = bf16(c q[t, h])                  to the nearest, ties to even
//   s_j  = dot(a, k_j)                      for visible j: the weight's logarithm, to base 2
//   from m = log2(e) sink, l = 1, o = 0     (m = the lowest float, l = 0 without sinks),
//   for each page with a visible key, in ascending order:
//     m' = max(m, s_j);  f = 2^(m - m');  w_j = 2^(s_j - m');  m = m'     exp2.h
//     l = f l + sum_j w_j
//     o = f o + sum_j bf16(w_j) v_j         to the nearest, but ties up: one addition
//   y[t, h] = o / l
// It is attention_exact's formula, but for its roundings; the online softmax is Milakov &
// Gimelshein's, arXiv:1805.02867.
//   heads    whole groups of heads that share a kv head
//   q, y     [n_tokens, n_heads * head_dim] f32; only the columns of `heads` are written
//   kv       holds positions [0, first_position + n_tokens). What no token of the call sees is
//            never used, so it may be anything; what one sees is finite
//   sinks    [n_heads] f32, or empty
//   scratch  at least attention_fast_scratch_floats(...) floats, for this worker alone
//
// Sums are float32. A row (a token's head) has the same bits for any batch, chunk, page placement
// and split of heads, and decode has prefill's. Scalar, AVX2 and AVX-512 agree bit for bit (the
// sign of a zero aside):
//   dot      an fma chain from +0 over ascending elements
//   l        16 virtual lanes, lane = position mod 16: each is multiplied by f, then adds the
//            page's visible w_j in ascending order; the lanes are added in halves at the end. The
//            sink's 1 starts lane 0
//   o        multiplied by f, then an fma chain over the page's visible keys in ascending order
// AMX adds in its own fixed order, and takes subnormal products as 0. It serves heads whose
// dimension is a multiple of 32; others take the AVX-512 path.
void attention_fast(Isa isa, const AttentionShape& shape, Range heads, Rows<const float> q,
                    int64_t first_position, const PagedKvBf16& kv, std::span<const float> sinks,
                    std::span<float> scratch, Rows<float> y);
void attention_fast_ref(const AttentionShape& shape, Range heads, Rows<const float> q,
                        int64_t first_position, const PagedKvBf16& kv, std::span<const float> sinks,
                        Rows<float> y);

// Scratch for calls of up to n_tokens tokens, at any position.
size_t attention_fast_scratch_floats(const AttentionShape& shape, int64_t n_tokens);

}  // namespace penstock
