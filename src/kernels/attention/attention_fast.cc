#include "kernels/attention/attention_fast.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "base/integers.h"
#include "kernels/attention/attention_check.h"
#include "kernels/attention/attention_fast_task.h"
#include "tensor/scalar_types.h"

namespace penstock {
namespace {

// Rows that share one pass over the pages: their queries and totals leave room in an L2 cache, and
// AMX, the fastest, asks for new pages at about 5 GB/s.
constexpr int64_t kBlockRows = 128;
constexpr int64_t kAlignedFloats = 16;  // 64 bytes

int64_t block_tokens(const AttentionShape& shape, int64_t n_tokens) {
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  return std::clamp<int64_t>(kBlockRows / group, 1, std::max<int64_t>(1, n_tokens));
}

int64_t padded_rows(const AttentionShape& shape, int64_t n_tokens) {
  return round_up(n_tokens * (shape.n_heads / shape.n_kv_heads), kAlignedFloats);
}

int64_t padded_dim(const AttentionShape& shape) { return round_up(shape.head_dim, 32); }

void place_scratch(FastAttentionTask& task, std::span<float> scratch) {
  const int64_t n_rows = padded_rows(task.shape, task.tokens.size());
  const int64_t dim = padded_dim(task.shape);
  void* start = scratch.data();
  size_t space = scratch.size_bytes();
  auto* const aligned = static_cast<float*>(std::align(64, sizeof(float), start, space));
  task.queries = dense_rows(aligned, n_rows, dim);
  task.totals = dense_rows(task.queries.row(n_rows), n_rows, dim);
  task.sums = dense_rows(task.totals.row(n_rows), n_rows, kSumLanes);
  task.maxima = task.sums.row(n_rows);
  task.keys = task.maxima + n_rows;
  task.values = reinterpret_cast<uint16_t*>(task.keys + dim * kPageTokens);
}

Range pages_of(const FastAttentionTask& task) {
  const int64_t first = task.first_position + task.tokens.begin;
  const int64_t last = task.first_position + task.tokens.end - 1;
  const int64_t begin =
      task.shape.window > 0 ? std::max<int64_t>(0, first - task.shape.window + 1) : 0;
  return {begin / kPageTokens, last / kPageTokens + 1};
}

using AttendBlock = void (*)(const FastAttentionTask&);

AttendBlock attend_block_of(Isa isa, int head_dim) {
  switch (isa) {
    case Isa::kAvx2:
      return attend_fast_avx2;
    case Isa::kAmx:
      if (head_dim % 32 == 0) return attend_fast_amx;
      [[fallthrough]];
    default:
      return attend_fast_avx512;
  }
}

}  // namespace

void write_kv_bf16(const AttentionShape& shape, int64_t slot, std::span<const float> k,
                   std::span<const float> v, uint16_t* page_keys, uint16_t* page_values) {
  const int64_t head_dim = shape.head_dim;
  PENSTOCK_CHECK(std::ssize(k) == shape.n_kv_heads * head_dim && k.size() == v.size(),
                 "k and v [n_kv_heads, head_dim]");
  PENSTOCK_CHECK(slot >= 0 && slot < kPageTokens, "a place in the page");
  for (int64_t h = 0; h < shape.n_kv_heads; ++h) {
    const float* const k_h = k.data() + h * head_dim;
    const float* const v_h = v.data() + h * head_dim;
    uint16_t* const keys = page_keys + h * kPageTokens * head_dim;
    uint16_t* const values = page_values + (h * kPageTokens + slot / 2 * 2) * head_dim + slot % 2;
    for (int64_t d = 0; d < head_dim; ++d) {
      keys[key_place(head_dim, slot, d)] = f32_to_bf16(k_h[d]);
    }
    for (int64_t d = 0; d < head_dim; ++d) values[2 * d] = f32_to_bf16(v_h[d]);
  }
}

const uint16_t* seen_values(const FastAttentionTask& task, int64_t p) {
  const int64_t head_dim = task.shape.head_dim;
  const uint16_t* const page = page_values(task, p);
  const Range seen = seen_in_page(task, {0, task.n_rows()}, p);
  if (seen == Range{0, kPageTokens}) return page;

  const int64_t pair = 2 * head_dim;
  const Range whole = {(seen.begin + 1) / 2, seen.end / 2};  // pairs of which both are seen
  std::fill_n(task.values, kPageTokens * head_dim, uint16_t{0});
  if (whole.size() > 0) {
    std::copy_n(page + whole.begin * pair, whole.size() * pair, task.values + whole.begin * pair);
  }
  const auto copy_key = [&](int64_t j) {
    const int64_t first = j / 2 * pair + j % 2;
    for (int64_t d = 0; d < head_dim; ++d) task.values[first + 2 * d] = page[first + 2 * d];
  };
  if (seen.begin % 2 == 1) copy_key(seen.begin);
  if (seen.end % 2 == 1) copy_key(seen.end - 1);
  return task.values;
}

void attention_fast(Isa isa, const AttentionShape& shape, Range heads, Rows<const float> q,
                    int64_t first_position, const PagedKvBf16& kv, std::span<const float> sinks,
                    std::span<float> scratch, Rows<float> y) {
  check_attention_call(shape, heads, q, first_position, kv, y);
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  PENSTOCK_CHECK(heads.begin % group == 0 && heads.end % group == 0, "whole groups of heads");
  if (isa == Isa::kScalar) {
    return attention_fast_ref(shape, heads, q, first_position, kv, sinks, y);
  }
  PENSTOCK_CHECK(scratch.size() >= attention_fast_scratch_floats(shape, q.n_rows),
                 "scratch as attention_fast_scratch_floats says");
  const int64_t n_tokens = block_tokens(shape, q.n_rows);
  const AttendBlock attend_block = attend_block_of(isa, shape.head_dim);
  FastAttentionTask task = {shape, kv, sinks, q, y, first_position};
  for (int64_t h = heads.begin; h < heads.end; h += group) {
    task.kv_head = h / group;
    task.heads = {h, h + group};
    for (int64_t t = 0; t < q.n_rows; t += n_tokens) {
      task.tokens = {t, std::min(t + n_tokens, q.n_rows)};
      task.pages = pages_of(task);
      place_scratch(task, scratch);
      attend_block(task);
    }
  }
}

size_t attention_fast_scratch_floats(const AttentionShape& shape, int64_t n_tokens) {
  const int64_t dim = padded_dim(shape);
  const int64_t n_rows = padded_rows(shape, block_tokens(shape, n_tokens));
  const int64_t page = dim * kPageTokens + dim * kPageTokens / 2;  // keys, values
  return static_cast<size_t>(n_rows * (2 * dim + kSumLanes + 1) + page + kAlignedFloats);
}

}  // namespace penstock
