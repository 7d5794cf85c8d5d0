// Attention of one block over 16 lanes, for the isa files: include kernels/lanes_<isa>.h first, and
// define
// kTileWidth: kRowsAtOnce * 16 kTileWidth totals fit the isa's registers.
#pragma once

#include "kernels/attention/attention_task.h"

namespace penstock {
namespace {

inline int64_t larger_of(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }
inline Range common_part(Range a, Range b) {
  return {larger_of(a.begin, b.begin), smaller_of(a.end, b.end)};
}

// scores[k] = scale * dot(q, keys[k]) for 16 keys, [16, head_dim]. With kHeadDim given, one pointer
// reaches all keys; otherwise (0) there are more pointers than registers for them.
template <int64_t kHeadDim>
inline void score_keys(const float* q, const float* keys, int64_t any_head_dim, float scale,
                       float* scores) {
  const int64_t head_dim = kHeadDim > 0 ? kHeadDim : any_head_dim;
  const int64_t whole = head_dim / kLanes * kLanes;
  const int64_t rest = head_dim - whole;
  for (int k = 0; k < kLanes; k += kSumsAtOnce) {
    const float* const first = keys + k * head_dim;
    Lanes dots[kSumsAtOnce];
    for (Lanes& each : dots) each = zero();
    for (int64_t d = 0; d < whole; d += kLanes) {
      const Lanes q_d = load(q + d);
      for (int i = 0; i < kSumsAtOnce; ++i) {
        dots[i] = fma(q_d, load(first + i * head_dim + d), dots[i]);
      }
    }
    if (rest > 0) {
      const Lanes q_d = load_first(q + whole, rest);
      for (int i = 0; i < kSumsAtOnce; ++i) {
        dots[i] = fma(q_d, load_first(first + i * head_dim + whole, rest), dots[i]);
      }
    }
    store_scaled_sums(dots, scale, scores + k);
  }
}

inline void score_keys(const float* q, const float* keys, int64_t head_dim, float scale,
                       float* scores) {
  switch (head_dim) {
    case 64:
      return score_keys<64>(q, keys, head_dim, scale, scores);
    case 128:
      return score_keys<128>(q, keys, head_dim, scale, scores);
    default:
      return score_keys<0>(q, keys, head_dim, scale, scores);
  }
}

// Scores of every row for the page's keys, in whole groups of 16 of which the row sees at least
// one: the scores of keys it does not see are never used.
inline void score_page(const AttentionTask& block, int64_t p) {
  const int64_t head_dim = block.shape.head_dim;
  const float* const keys = block.page(block.kv.keys, p);
  for (int64_t k = 0; k < kPageTokens; k += kLanes) {
    const int64_t position = p * kPageTokens + k;
    const int64_t column = position - block.first_page * kPageTokens;
    for (int64_t t = block.tokens.begin, row = 0; t < block.tokens.end; ++t) {
      const Range seen = block.visible(t);
      if (position >= seen.end || position + kLanes <= seen.begin) {
        row += block.heads.size();
        continue;
      }
      for (int64_t h = block.heads.begin; h < block.heads.end; ++h, ++row) {
        score_keys(block.queries.row(row), keys + k * head_dim, head_dim, block.shape.scale,
                   block.scores.row(row) + column);
      }
    }
  }
}

// Lanes of the row's scores at columns c .. c + 15; `otherwise` where the row does not see.
inline Lanes seen_scores(const float* scores, int64_t c, Range seen, Lanes otherwise) {
  const Lanes scores_c = load(scores + c);
  if (c >= seen.begin && c + kLanes <= seen.end) return scores_c;
  const Range lanes = common_part({0, kLanes}, {seen.begin - c, seen.end - c});
  return keep(scores_c, lanes.begin, lanes.end, otherwise);
}

// Turns a row's scores into e_j, and returns their sum with the sink's. `seen` counts columns.
inline float exp_scores(float* scores, Range seen, const float* sink) {
  const int64_t first = seen.begin / kLanes * kLanes;
  Lanes maxima = all(sink != nullptr ? *sink : -ExpConstants::kInfinity);
  for (int64_t c = first; c < seen.end; c += kLanes) {
    maxima = larger(seen_scores(scores, c, seen, maxima), maxima);
  }
  const float max = largest(maxima);

  Lanes sums = zero();
  const Lanes unseen = all(-ExpConstants::kInfinity);  // exp makes it +0, which adds nothing
  for (int64_t c = first; c < seen.end; c += kLanes) {
    const Lanes e = exp_lanes(seen_scores(scores, c, seen, unseen) - all(max));
    store(scores + c, e);
    sums = sums + e;
  }
  return sink != nullptr ? sum(sums) + exp_exact(*sink - max) : sum(sums);
}

// Some rows of one page, at the first of the elements in hand.
struct ValueTile {
  const float* values = nullptr;           // [kPageTokens, head_dim]
  const float* weights[kRowsAtOnce] = {};  // e_j of each row, from the page's first key
  float* parts[kRowsAtOnce] = {};
};

// part[r][d] = fma(e_j, v_j[d], part[r][d]) over `keys`, for kRows rows and 16 kWidth elements; of
// the last 16 only n_elements exist if kIsWhole is false.
template <int kRows, int kWidth, bool kIsWhole>
inline void add_tile(const ValueTile& tile, int64_t d, int64_t head_dim, Range keys,
                     int64_t n_elements) {
  Lanes part[kRows][kWidth];
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) part[r][w] = load(tile.parts[r] + d + w * kLanes);
  }
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    const float* const values = tile.values + j * head_dim + d;
    Lanes v[kWidth];
    for (int w = 0; w < kWidth; ++w) {
      v[w] = kIsWhole ? load(values + w * kLanes) : load_first(values + w * kLanes, n_elements);
    }
    for (int r = 0; r < kRows; ++r) {
      const Lanes e = all(tile.weights[r][j]);
      for (int w = 0; w < kWidth; ++w) part[r][w] = fma(e, v[w], part[r][w]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) store(tile.parts[r] + d + w * kLanes, part[r][w]);
  }
}

// The same over all elements of the head.
template <int kRows>
inline void add_keys(const ValueTile& tile, int64_t head_dim, Range keys) {
  int64_t d = 0;
  for (; d + kTileWidth * kLanes <= head_dim; d += kTileWidth * kLanes) {
    add_tile<kRows, kTileWidth, true>(tile, d, head_dim, keys, kLanes);
  }
  for (; d + kLanes <= head_dim; d += kLanes) {
    add_tile<kRows, 1, true>(tile, d, head_dim, keys, kLanes);
  }
  if (d < head_dim) add_tile<kRows, 1, false>(tile, d, head_dim, keys, head_dim - d);
}

inline void add_keys(const ValueTile& tile, int64_t n_rows, int64_t head_dim, Range keys) {
  if (keys.size() <= 0) return;
  switch (n_rows) {
    case 1:
      return add_keys<1>(tile, head_dim, keys);
    case 2:
      return add_keys<2>(tile, head_dim, keys);
    case 3:
      return add_keys<3>(tile, head_dim, keys);
    default:
      return add_keys<4>(tile, head_dim, keys);
  }
}

// Keys that all rows see are read once for all; those before and after, where the causal edge or
// the window's crosses the page, row by row. `seen` counts from the page's first key.
inline void add_page_to_parts(const ValueTile& tile, const Range* seen, int64_t n_rows,
                              int64_t head_dim) {
  Range common = {0, kPageTokens};
  for (int64_t r = 0; r < n_rows; ++r) common = common_part(common, seen[r]);
  common.begin = smaller_of(common.begin, kPageTokens);
  common.end = larger_of(common.begin, common.end);
  const auto add_row = [&](int64_t r, Range keys) {
    const ValueTile row = {tile.values, {tile.weights[r]}, {tile.parts[r]}};
    add_keys(row, 1, head_dim, common_part(seen[r], keys));
  };
  for (int64_t r = 0; r < n_rows; ++r) add_row(r, {0, common.begin});
  add_keys(tile, n_rows, head_dim, common);
  for (int64_t r = 0; r < n_rows; ++r) add_row(r, {common.end, kPageTokens});
}

inline void fill_zero(float* p, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) store(p + i, zero());
}

// Adds the page's part of sum_j e_j v_j to every row's total.
inline void add_page(const AttentionTask& block, int64_t p) {
  const int64_t head_dim = block.shape.head_dim;
  const int64_t first_column = (p - block.first_page) * kPageTokens;
  ValueTile tile = {block.page(block.kv.values, p)};
  Range seen[kRowsAtOnce];
  for (int64_t row = 0; row < block.n_rows(); row += kRowsAtOnce) {
    const int64_t n_rows = smaller_of(kRowsAtOnce, block.n_rows() - row);
    for (int64_t r = 0; r < n_rows; ++r) {
      const Range all_seen = block.visible(block.tokens.begin + (row + r) / block.heads.size());
      seen[r] = {all_seen.begin - p * kPageTokens, all_seen.end - p * kPageTokens};
      tile.weights[r] = block.scores.row(row + r) + first_column;
      tile.parts[r] = block.parts.row(r);
      fill_zero(tile.parts[r], block.parts.cols);
    }
    add_page_to_parts(tile, seen, n_rows, head_dim);
    for (int64_t r = 0; r < n_rows; ++r) {
      float* const total = block.totals.row(row + r);
      for (int64_t d = 0; d < head_dim; d += kLanes) {
        store(total + d, load(total + d) + load(tile.parts[r] + d));
      }
    }
  }
}

inline void finish_row(const float* total, float denominator, int64_t head_dim, float* y) {
  for (int64_t d = 0; d < head_dim; d += kLanes) {
    store_first(y + d, smaller_of(kLanes, head_dim - d), load(total + d) / all(denominator));
  }
}

inline void attend_block(const AttentionTask& block) {
  const int64_t first_column = block.first_page * kPageTokens;
  const int64_t last_page = (block.visible(block.tokens.end - 1).end - 1) / kPageTokens;

  for (int64_t p = block.first_page; p <= last_page; ++p) score_page(block, p);
  for (int64_t row = 0; row < block.n_rows(); ++row) {
    const Range seen = block.visible(block.tokens.begin + row / block.heads.size());
    const int64_t h = block.heads.begin + row % block.heads.size();
    block.denominators[row] =
        exp_scores(block.scores.row(row), {seen.begin - first_column, seen.end - first_column},
                   block.sinks.empty() ? nullptr : block.sinks.data() + h);
    fill_zero(block.totals.row(row), block.totals.cols);
  }
  for (int64_t p = block.first_page; p <= last_page; ++p) add_page(block, p);
  for (int64_t row = 0; row < block.n_rows(); ++row) {
    const int64_t t = block.tokens.begin + row / block.heads.size();
    const int64_t h = block.heads.begin + row % block.heads.size();
    finish_row(block.totals.row(row), block.denominators[row], block.shape.head_dim,
               block.y.row(t) + h * block.shape.head_dim);
  }
}

}  // namespace
}  // namespace penstock
