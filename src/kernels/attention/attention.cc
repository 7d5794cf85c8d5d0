#include "kernels/attention/attention.h"

#include <algorithm>

#include "base/integers.h"
#include "kernels/attention/attention_check.h"
#include "kernels/attention/attention_task.h"

namespace penstock {
namespace {

constexpr int64_t kScratchFloats = (2 << 20) / sizeof(float);  // about the size of an L2 cache

// Columns of scores that any block of a call needs whose last token is at n_positions - 1.
int64_t score_columns(const AttentionShape& shape, int64_t n_positions) {
  const int64_t all = round_up(n_positions, kPageTokens);
  if (shape.window == 0 || shape.window >= n_positions) return all;
  // What a block sees may begin anywhere in its first page.
  return std::min(all, round_up(shape.window + kBlockTokens + kPageTokens, kPageTokens));
}

int64_t padded_dim(const AttentionShape& shape) { return round_up(shape.head_dim, 16); }

int64_t parts_floats(const AttentionShape& shape) { return kRowsAtOnce * padded_dim(shape); }

// Scratch of one token with `n_heads` heads: queries, scores, totals, denominators.
int64_t floats_per_token(const AttentionShape& shape, int64_t n_heads, int64_t n_positions) {
  return n_heads * (score_columns(shape, n_positions) + 2 * padded_dim(shape) + 1);
}

void place_scratch(AttentionTask& block, int64_t columns, float* scratch) {
  const int64_t n_rows = block.n_rows();
  const int64_t dim = padded_dim(block.shape);
  block.queries = dense_rows(scratch, n_rows, dim);
  block.scores = dense_rows(block.queries.row(n_rows), n_rows, columns);
  block.totals = dense_rows(block.scores.row(n_rows), n_rows, dim);
  block.parts = dense_rows(block.totals.row(n_rows), kRowsAtOnce, dim);
  block.denominators = block.parts.row(kRowsAtOnce);
}

// The queries are read once for every 16 keys. In q they lie a power of two apart, where they push
// each other out of the first-level cache: side by side they do not.
void gather_queries(Rows<const float> q, AttentionTask& block) {
  const int64_t head_dim = block.shape.head_dim;
  float* row = block.queries.data;
  for (int64_t t = block.tokens.begin; t < block.tokens.end; ++t) {
    for (int64_t h = block.heads.begin; h < block.heads.end; ++h) {
      std::copy_n(q.row(t) + h * head_dim, head_dim, row);
      row += block.queries.stride;
    }
  }
}

}  // namespace

void attention_exact(Isa isa, const AttentionShape& shape, Range heads, Rows<const float> q,
                     int64_t first_position, const PagedKv& kv, std::span<const float> sinks,
                     std::span<float> scratch, Rows<float> y) {
  check_attention_call(shape, heads, q, first_position, kv, y);
  if (isa == Isa::kScalar) {
    return attention_exact_ref(shape, heads, q, first_position, kv, sinks, y);
  }
  const int64_t n_positions = first_position + q.n_rows;
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  const int64_t n_tokens = std::min(kBlockTokens, (std::ssize(scratch) - parts_floats(shape)) /
                                                      floats_per_token(shape, group, n_positions));
  PENSTOCK_CHECK(n_tokens > 0, "scratch as attention_scratch_floats says");

  const auto attend_block = isa == Isa::kAvx2 ? attend_block_avx2 : attend_block_avx512;
  AttentionTask block = {shape, kv, sinks, y, first_position};
  for (int64_t h = heads.begin; h < heads.end; h = block.heads.end) {
    block.kv_head = h / group;
    block.heads = {h, std::min((block.kv_head + 1) * group, heads.end)};
    for (int64_t t = 0; t < q.n_rows; t += n_tokens) {
      block.tokens = {t, std::min(t + n_tokens, q.n_rows)};
      block.first_page = block.visible(t).begin / kPageTokens;
      place_scratch(block, score_columns(shape, n_positions), scratch.data());
      gather_queries(q, block);
      attend_block(block);
    }
  }
}

size_t attention_scratch_floats(const AttentionShape& shape, int64_t n_tokens,
                                int64_t n_positions) {
  const int64_t one = floats_per_token(shape, shape.n_heads / shape.n_kv_heads, n_positions);
  const int64_t wanted = std::clamp<int64_t>(n_tokens, 1, kBlockTokens) * one;
  return static_cast<size_t>(parts_floats(shape) + std::max(one, std::min(wanted, kScratchFloats)));
}

}  // namespace penstock
