// A block of attention_fast over 16 lanes, for the isa files: include kernels/lanes_<isa>.h first,
// and define
//   kScoreWidth, kTotalWidth  kRowsAtOnce times so many Lanes of sums fit the isa's registers
//   first_of_pairs, second_of_pairs (16 pairs of bf16, widened), exp2_lanes
//   round_to_bf16 (ties to even), round_weights (ties up)
//   spread_keys(keys, head_dim, spread): keys [kPageTokens, head_dim] bf16 turned into
//     [head_dim, kPageTokens] f32
#pragma once

#include "kernels/attention/attention_fast_task.h"

namespace penstock {
namespace {

inline constexpr int64_t kRowsAtOnce = 4;  // rows whose sums are kept in registers together

// Asks for the keys and values of a block's next page, a few lines at a time and all through the
// work on the page before: a core has room for few requests at once, and waits where it has none.
class NextPage {
 public:
  NextPage() = default;  // there is none
  NextPage(const FastAttentionTask& task, int64_t page, int64_t n_calls)
      : keys_(page_keys(task, page)),
        values_(page_values(task, page)),
        end_(kPageTokens * task.shape.head_dim),
        step_((end_ + kLine * n_calls - 1) / (kLine * n_calls) * kLine) {}
  // Always inline: g++ takes a function that only prefetches for one that does nothing.
  [[gnu::always_inline]] void ask() {
    const int64_t until = smaller_of(at_ + step_, end_);
    for (; at_ < until; at_ += kLine) {
      _mm_prefetch(keys_ + at_, _MM_HINT_T1);
      _mm_prefetch(values_ + at_, _MM_HINT_T1);
    }
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(uint16_t);

  const uint16_t* keys_ = nullptr;
  const uint16_t* values_ = nullptr;
  int64_t at_ = 0, end_ = 0;  // numbers, of keys and of values
  int64_t step_ = 0;
};

// Rows of a block that meet a page together, and the keys of it that some of them see.
struct RowsOnPage {
  const FastAttentionTask& task;
  int64_t page = 0;
  int64_t first_row = 0;
  Range seen = {};
  const uint16_t* values = nullptr;  // seen_values
  NextPage* next = nullptr;          // of the block
  Range key_groups() const { return {seen.begin / kLanes, (seen.end + kLanes - 1) / kLanes}; }
};

// w_j of each row, rounded to bf16; before that, s_j.
using PageWeights = float[kRowsAtOnce][kPageTokens];

// a, rounded to bf16 and widened again: multiplying needs no more unpacking.
inline void gather_queries(const FastAttentionTask& task) {
  const int64_t head_dim = task.shape.head_dim;
  const Lanes c = all(task.shape.scale * kLog2E);
  float* row = task.queries.data;
  for (int64_t t = task.tokens.begin; t < task.tokens.end; ++t) {
    for (int64_t h = task.heads.begin; h < task.heads.end; ++h, row += task.queries.stride) {
      const float* const q = task.q.row(t) + h * head_dim;
      for (int64_t d = 0; d < head_dim; d += kLanes) {
        store(row + d, round_to_bf16(c * load_first(q + d, smaller_of(kLanes, head_dim - d))));
      }
    }
  }
}

inline void start_rows(const FastAttentionTask& task) {
  for (int64_t row = 0; row < task.n_rows(); ++row) {
    const int64_t h = task.heads.begin + row % task.heads.size();
    task.maxima[row] = task.sinks.empty() ? kLowestMax : task.sinks.data()[h] * kLog2E;
    store(task.sums.row(row), keep(all(1.0F), 0, task.sinks.empty() ? 0 : 1, zero()));
    for (int64_t d = 0; d < task.totals.cols; d += kLanes) store(task.totals.row(row) + d, zero());
  }
}

template <int kRows>
inline void score_page(const RowsOnPage& rows, PageWeights scores) {
  const Range groups = rows.key_groups();
  for (int64_t g = groups.begin; g < groups.end; g += kScoreWidth) {
    // A page has a whole number of kScoreWidth groups; the first seen one may lie inside.
    const int64_t k = g / kScoreWidth * kScoreWidth * kLanes;
    Lanes dots[kRows][kScoreWidth];
    for (auto& row : dots) {
      for (Lanes& each : row) each = zero();
    }
    const float* const queries = rows.task.queries.row(rows.first_row);
    for (int64_t d = 0; d < rows.task.shape.head_dim; ++d) {
      rows.next->ask();
      Lanes keys[kScoreWidth];
      for (int w = 0; w < kScoreWidth; ++w) {
        keys[w] = load(rows.task.keys + d * kPageTokens + k + w * kLanes);
      }
      for (int r = 0; r < kRows; ++r) {
        const Lanes a = all(queries[r * rows.task.queries.stride + d]);
        for (int w = 0; w < kScoreWidth; ++w) dots[r][w] = fma(a, keys[w], dots[r][w]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int w = 0; w < kScoreWidth; ++w) store(scores[r] + k + w * kLanes, dots[r][w]);
    }
  }
}

// Lanes of the row's scores for keys k to k + 15; -inf, whose weight is +0, where it does not see.
inline Lanes seen_scores(const float* scores, int64_t k, Range seen) {
  const Lanes scores_k = load(scores + k);
  if (k >= seen.begin && k + kLanes <= seen.end) return scores_k;
  const int64_t begin = larger_of(0, smaller_of(kLanes, seen.begin - k));
  const int64_t end = larger_of(begin, smaller_of(kLanes, seen.end - k));
  return keep(scores_k, begin, end, all(-ExpConstants::kInfinity));
}

// Turns one row's scores into weights, and updates its m and l. Returns f.
inline Lanes weigh_row(const RowsOnPage& rows, int64_t row, float* scores) {
  const FastAttentionTask& task = rows.task;
  const Range seen = seen_in_page(task, {row, row + 1}, rows.page);
  const Range groups = rows.key_groups();
  const float m = task.maxima[row];
  Lanes maxima = all(m);
  for (int64_t g = groups.begin; g < groups.end; ++g) {
    maxima = larger(seen_scores(scores, g * kLanes, seen), maxima);
  }
  task.maxima[row] = largest(maxima);
  const Lanes max = all(task.maxima[row]);

  const Lanes factor = exp2_lanes(all(m) - max);
  Lanes sums = load(task.sums.row(row)) * factor;
  for (int64_t g = groups.begin; g < groups.end; ++g) {
    const Lanes weights = exp2_lanes(seen_scores(scores, g * kLanes, seen) - max);
    sums = sums + weights;
    store(scores + g * kLanes, round_weights(weights));
  }
  store(task.sums.row(row), sums);
  return factor;
}

// o = f o + sum_j w_j v_j for kRows rows and 16 kWidth elements from d on; of the last 16 only
// n_elements exist if kIsWhole is false.
template <int kRows, int kWidth, bool kIsWhole>
inline void add_values(const RowsOnPage& rows, const PageWeights weights, const Lanes* factors,
                       int64_t d, int64_t n_elements) {
  const FastAttentionTask& task = rows.task;
  Lanes sums[kRows][kWidth];
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) {
      sums[r][w] = load(task.totals.row(rows.first_row + r) + d + w * kLanes) * factors[r];
    }
  }
  for (int64_t j = rows.seen.begin / 2 * 2; j < rows.seen.end; j += 2) {
    const uint16_t* const pairs = rows.values + j * task.shape.head_dim + 2 * d;
    rows.next->ask();
    Lanes first[kWidth];
    Lanes second[kWidth];
    for (int64_t w = 0; w < kWidth; ++w) {
      const int64_t n = kIsWhole ? kLanes : n_elements;
      first[w] = first_of_pairs(pairs + 2 * w * kLanes, n);
      second[w] = second_of_pairs(pairs + 2 * w * kLanes, n);
    }
    for (int r = 0; r < kRows; ++r) {
      const Lanes w_first = all(weights[r][j]);
      const Lanes w_second = all(weights[r][j + 1]);
      for (int w = 0; w < kWidth; ++w) sums[r][w] = fma(w_first, first[w], sums[r][w]);
      for (int w = 0; w < kWidth; ++w) sums[r][w] = fma(w_second, second[w], sums[r][w]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) {
      store(task.totals.row(rows.first_row + r) + d + w * kLanes, sums[r][w]);
    }
  }
}

template <int kRows>
inline void attend_page(const RowsOnPage& rows) {
  alignas(64) PageWeights weights;
  score_page<kRows>(rows, weights);
  Lanes factors[kRows];
  for (int r = 0; r < kRows; ++r) factors[r] = weigh_row(rows, rows.first_row + r, weights[r]);

  const int64_t head_dim = rows.task.shape.head_dim;
  int64_t d = 0;
  for (; d + kTotalWidth * kLanes <= head_dim; d += kTotalWidth * kLanes) {
    add_values<kRows, kTotalWidth, true>(rows, weights, factors, d, kLanes);
  }
  for (; d + kLanes <= head_dim; d += kLanes) {
    add_values<kRows, 1, true>(rows, weights, factors, d, kLanes);
  }
  if (d < head_dim) add_values<kRows, 1, false>(rows, weights, factors, d, head_dim - d);
}

inline void attend_page(const RowsOnPage& rows, int64_t n_rows) {
  switch (n_rows) {
    case 1:
      return attend_page<1>(rows);
    case 2:
      return attend_page<2>(rows);
    case 3:
      return attend_page<3>(rows);
    default:
      return attend_page<4>(rows);
  }
}

inline void finish_rows(const FastAttentionTask& task) {
  const int64_t head_dim = task.shape.head_dim;
  int64_t row = 0;
  for (int64_t t = task.tokens.begin; t < task.tokens.end; ++t) {
    for (int64_t h = task.heads.begin; h < task.heads.end; ++h, ++row) {
      float* const y = task.y.row(t) + h * head_dim;
      const float* const total = task.totals.row(row);
      const Lanes l = all(sum(load(task.sums.row(row))));
      for (int64_t d = 0; d < head_dim; d += kLanes) {
        store_first(y + d, smaller_of(kLanes, head_dim - d), load(total + d) / l);
      }
    }
  }
}

// How often the work on a page asks for the next one: at each step of score_page and add_values.
inline int64_t n_asks(const FastAttentionTask& task) {
  const int64_t head_dim = task.shape.head_dim;
  const int64_t of_scores = head_dim * (kPageTokens / (kScoreWidth * kLanes));
  const int64_t of_values = larger_of(head_dim / (kTotalWidth * kLanes), 1) * (kPageTokens / 2);
  return (task.n_rows() + kRowsAtOnce - 1) / kRowsAtOnce * (of_scores + of_values);
}

inline void attend_block(const FastAttentionTask& task) {
  gather_queries(task);
  start_rows(task);
  for (int64_t p = task.pages.begin; p < task.pages.end; ++p) {
    spread_keys(page_keys(task, p), task.shape.head_dim, task.keys);
    RowsOnPage rows = {task, p};
    rows.values = seen_values(task, p);
    NextPage next;
    if (p + 1 < task.pages.end) next = NextPage(task, p + 1, n_asks(task));
    rows.next = &next;
    for (; rows.first_row < task.n_rows(); rows.first_row += kRowsAtOnce) {
      const int64_t n_rows = smaller_of(kRowsAtOnce, task.n_rows() - rows.first_row);
      rows.seen = seen_in_page(task, {rows.first_row, rows.first_row + n_rows}, p);
      if (rows.seen.size() > 0) attend_page(rows, n_rows);
    }
  }
  finish_rows(task);
}

}  // namespace
}  // namespace penstock
