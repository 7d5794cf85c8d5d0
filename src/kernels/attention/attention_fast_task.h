// The unit of work that attention_fast.cc hands to the isa versions: some tokens and all the heads
// that share one kv head. Row r of a block is token r / heads.size() of `tokens` and head
// r % heads.size() of `heads`.
#pragma once

#include "kernels/attention/attention_fast.h"

namespace penstock {

inline constexpr float kLog2E = 0x1.715476p+0F;
inline constexpr float kLowestMax = -0x1.fffffep+127F;  // m of a row that has seen nothing
inline constexpr int64_t kSumLanes = 16;

struct FastAttentionTask {
  const AttentionShape& shape;
  const PagedKvBf16& kv;
  std::span<const float> sinks;  // [n_heads] or empty
  Rows<const float> q;           // [n_tokens, n_heads * head_dim] of the whole call
  Rows<float> y;                 // as q
  int64_t first_position = 0;    // of token 0 of q
  int64_t kv_head = 0;
  Range heads = {};
  Range tokens = {};
  Range pages = {};  // those that hold what some token of the block sees

  // Scratch, whose first elements are aligned to 64 bytes. Rows are counted up to a multiple of
  // 16, and elements of a head to one of 32.
  Rows<float> queries = {};    // [rows, head_dim], as the isa likes them
  Rows<float> totals = {};     // o of each row
  float* maxima = nullptr;     // m of each row
  Rows<float> sums = {};       // l of each row, [rows, kSumLanes]
  float* keys = nullptr;       // a page's, widened: [head_dim, kPageTokens]
  uint16_t* values = nullptr;  // a page's, [kPageTokens / 2, head_dim, 2]

  int64_t n_rows() const { return tokens.size() * heads.size(); }
};

// Everything here has internal linkage: the isa files include it.
namespace {

inline int64_t larger_of(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }

// Keys of page p that the block's rows [begin, end) see, all of them together, counted from the
// page's first; empty if none.
inline Range seen_in_page(const FastAttentionTask& task, Range rows, int64_t p) {
  const int64_t first = task.first_position + task.tokens.begin + rows.begin / task.heads.size();
  const int64_t last = task.first_position + task.tokens.begin + (rows.end - 1) / task.heads.size();
  const int64_t begin = task.shape.window > 0 ? larger_of(0, first - task.shape.window + 1) : 0;
  return {larger_of(begin - p * kPageTokens, 0),
          smaller_of(last + 1 - p * kPageTokens, kPageTokens)};
}

// The block's keys of page p: [head_dim / 2, kPageTokens, 2], and an odd last element.
inline const uint16_t* page_keys(const FastAttentionTask& task, int64_t p) {
  return task.kv.keys.data()[p] + task.kv_head * kPageTokens * task.shape.head_dim;
}

// Its values: [kPageTokens / 2, head_dim, 2], seen or not.
inline const uint16_t* page_values(const FastAttentionTask& task, int64_t p) {
  return task.kv.values.data()[p] + task.kv_head * kPageTokens * task.shape.head_dim;
}

}  // namespace

// The block's values of page p, [kPageTokens / 2, head_dim, 2], for which no key is too many: those
// that no row sees are 0 (in a copy, task.values).
const uint16_t* seen_values(const FastAttentionTask& task, int64_t p);

void attend_fast_avx2(const FastAttentionTask& task);
void attend_fast_avx512(const FastAttentionTask& task);
void attend_fast_amx(const FastAttentionTask& task);  // head_dim: a multiple of 32

}  // namespace penstock
