// What every attention kernel takes for granted of its call.
#pragma once

#include "base/check.h"
#include "kernels/attention/attention.h"

namespace penstock {

// The shapes of q and y, [n_tokens, n_heads * head_dim], the heads, and pages for every token:
// PagedKv or another of its kind.
template <class Kv>
void check_attention_call(const AttentionShape& shape, Range heads, Rows<const float> q,
                          int64_t first_position, const Kv& kv, Rows<float> y) {
  PENSTOCK_CHECK(shape.n_kv_heads > 0 && shape.n_heads % shape.n_kv_heads == 0,
                 "kv heads serve equally many heads");
  PENSTOCK_CHECK(heads.begin >= 0 && heads.end <= shape.n_heads, "heads there are");
  PENSTOCK_CHECK(
      q.cols == int64_t{shape.n_heads} * shape.head_dim && y.cols == q.cols && y.n_rows == q.n_rows,
      "q and y [n_tokens, n_heads * head_dim]");
  PENSTOCK_CHECK(std::ssize(kv.keys) * kPageTokens >= first_position + q.n_rows &&
                     kv.values.size() == kv.keys.size(),
                 "pages for every token");
}

}  // namespace penstock
