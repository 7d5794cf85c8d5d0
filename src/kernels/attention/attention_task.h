// The unit of work that attention.cc hands to the isa versions: a few tokens and the heads that
// share one kv head, so that each key and value read serves all of them.
#pragma once

#include "kernels/attention/attention.h"

namespace penstock {

inline constexpr int64_t kBlockTokens = 16;
inline constexpr int64_t kRowsAtOnce = 4;  // rows whose totals are kept in registers together

// Row r of the scratch is token r / heads.size() of `tokens`, head r % heads.size() of `heads`.
struct AttentionTask {
  const AttentionShape& shape;
  const PagedKv& kv;
  std::span<const float> sinks;  // [n_heads] or empty
  Rows<float> y;                 // [n_tokens, n_heads * head_dim] of the whole call
  int64_t first_position = 0;    // of token 0 of y
  int64_t kv_head = 0;
  Range heads = {};
  Range tokens = {};
  int64_t first_page = 0;         // the page of column 0 of `scores`
  Rows<float> queries = {};       // [rows, head_dim rounded up to 16]
  Rows<float> scores = {};        // [rows, at least the columns of the pages seen]
  Rows<float> totals = {};        // as queries
  Rows<float> parts = {};         // [kRowsAtOnce, as totals]: one page's part of the totals
  float* denominators = nullptr;  // [rows]

  int64_t n_rows() const { return tokens.size() * heads.size(); }
  // Positions the token sees.
  Range visible(int64_t token) const {
    const int64_t position = first_position + token;
    const int64_t first = shape.window > 0 ? position - shape.window + 1 : 0;
    return {first > 0 ? first : 0, position + 1};
  }
  // The page's [kPageTokens, head_dim] of this kv head.
  const float* page(std::span<const float* const> pages, int64_t p) const {
    return pages[static_cast<size_t>(p)] + kv_head * kPageTokens * shape.head_dim;
  }
};

void attend_block_avx2(const AttentionTask& block);
void attend_block_avx512(const AttentionTask& block);

}  // namespace penstock
