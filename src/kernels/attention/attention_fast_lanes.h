// A block of attention_fast over 16 lanes, for the isa files: include kernels/lanes_<isa>.h first,
// and define
//   kScoreWidth, kTotalWidth  kRowsAtOnce times so many Lanes of sums fit the isa's registers
//   widened                   16 bf16
//   first_of_pairs, second_of_pairs (16 pairs of bf16, widened), exp2_lanes
//   round_to_bf16 (ties to even), round_weights (ties up)
#pragma once

#include "kernels/attention/attention_fast_rows.h"

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
  const uint16_t* keys = nullptr;    // page_keys
  const uint16_t* values = nullptr;  // page_values
  const float* wide_keys = nullptr;  // the keys once more, widened; null: not worth it
  NextPage* next = nullptr;          // of the block
  Range seen = {};
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

// A page's keys as they are stored, two elements to a load.
struct StoredKeys {
  const uint16_t* pairs;

  // Elements d and d + 1 of keys k to k + 15.
  [[gnu::always_inline]] void load_two(int64_t d, int64_t k, Lanes& first, Lanes& second) const {
    const uint16_t* const two = pairs + d * kPageTokens + 2 * k;
    first = first_of_pairs(two, kLanes);
    second = second_of_pairs(two, kLanes);
  }
  [[gnu::always_inline]] Lanes load_last(int64_t d, int64_t k) const {
    return widened(pairs + d * kPageTokens + k);
  }
};

// The same, widened beforehand: [head_dim, kPageTokens].
struct WideKeys {
  const float* keys;

  [[gnu::always_inline]] void load_two(int64_t d, int64_t k, Lanes& first, Lanes& second) const {
    first = load_last(d, k);
    second = load_last(d + 1, k);
  }
  [[gnu::always_inline]] Lanes load_last(int64_t d, int64_t k) const {
    return load(keys + d * kPageTokens + k);
  }
};

// Where more rows than these see a page, its keys are widened once for all of them.
inline constexpr int64_t kFewRows = 2 * kRowsAtOnce;

inline void widen_keys(const uint16_t* keys, int64_t head_dim, float* wide) {
  const StoredKeys stored = {keys};
  for (int64_t d = 0; d < head_dim; d += 2) {
    for (int64_t k = 0; k < kPageTokens; k += kLanes) {
      float* const to = wide + d * kPageTokens + k;
      if (d + 1 == head_dim) {
        store(to, stored.load_last(d, k));
        continue;
      }
      Lanes first;
      Lanes second;
      stored.load_two(d, k, first, second);
      store(to, first);
      store(to + kPageTokens, second);
    }
  }
}

// Scores of kRows rows and of kWidth times 16 keys, from k on.
template <int kRows, int kWidth, class Keys>
inline void score_keys(const RowsOnPage& rows, const Keys& keys, int64_t k, PageWeights scores) {
  Lanes dots[kRows][kWidth];
  for (auto& row : dots) {
    for (Lanes& each : row) each = zero();
  }
  const float* const queries = rows.task.queries.row(rows.first_row);
  const int64_t stride = rows.task.queries.stride;
  const auto add = [&](int64_t d, const Lanes(&of_keys)[kWidth]) __attribute__((always_inline)) {
    for (int r = 0; r < kRows; ++r) {
      const Lanes a = all(queries[r * stride + d]);
      for (int w = 0; w < kWidth; ++w) dots[r][w] = fma(a, of_keys[w], dots[r][w]);
    }
  };
  const int64_t head_dim = rows.task.shape.head_dim;
  int64_t d = 0;
  for (; d + 2 <= head_dim; d += 2) {
    rows.next->ask();
    Lanes first[kWidth];
    Lanes second[kWidth];
    for (int64_t w = 0; w < kWidth; ++w) keys.load_two(d, k + w * kLanes, first[w], second[w]);
    add(d, first);
    add(d + 1, second);
  }
  if (d < head_dim) {
    Lanes last[kWidth];
    for (int64_t w = 0; w < kWidth; ++w) last[w] = keys.load_last(d, k + w * kLanes);
    add(d, last);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) store(scores[r] + k + w * kLanes, dots[r][w]);
  }
}

// Scores of the keys that some row sees, and of their neighbours in the same Lanes.
template <int kRows, class Keys>
inline void score_page(const RowsOnPage& rows, const Keys& keys, PageWeights scores) {
  const Range groups = rows.key_groups();
  int64_t g = groups.begin;
  for (; g + kScoreWidth <= groups.end; g += kScoreWidth) {
    score_keys<kRows, kScoreWidth>(rows, keys, g * kLanes, scores);
  }
  for (; g < groups.end; ++g) score_keys<kRows, 1>(rows, keys, g * kLanes, scores);
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
  const auto add = [&](int64_t j, const Lanes(&values)[kWidth]) __attribute__((always_inline)) {
    for (int r = 0; r < kRows; ++r) {
      const Lanes weight = all(weights[r][j]);
      for (int w = 0; w < kWidth; ++w) sums[r][w] = fma(weight, values[w], sums[r][w]);
    }
  };
  // Of a pair's two positions those that are seen: the other's values may be anything.
  const auto add_pair = [&](int64_t j, bool has_first,
                            bool has_second) __attribute__((always_inline)) {
    const uint16_t* const pairs = rows.values + j * task.shape.head_dim + 2 * d;
    const int64_t n = kIsWhole ? kLanes : n_elements;
    Lanes first[kWidth];
    Lanes second[kWidth];
    for (int64_t w = 0; w < kWidth; ++w) {
      first[w] = first_of_pairs(pairs + 2 * w * kLanes, n);
      second[w] = second_of_pairs(pairs + 2 * w * kLanes, n);
    }
    if (has_first) add(j, first);
    if (has_second) add(j + 1, second);
  };
  int64_t j = rows.seen.begin / 2 * 2;
  if (j < rows.seen.begin) {
    add_pair(j, false, true);
    j += 2;
  }
  for (; j + 2 <= rows.seen.end; j += 2) {
    rows.next->ask();
    add_pair(j, true, true);
  }
  if (j < rows.seen.end) add_pair(j, true, false);
  for (int r = 0; r < kRows; ++r) {
    for (int w = 0; w < kWidth; ++w) {
      store(task.totals.row(rows.first_row + r) + d + w * kLanes, sums[r][w]);
    }
  }
}

template <int kRows>
inline void attend_page(const RowsOnPage& rows) {
  alignas(64) PageWeights weights;
  if (rows.wide_keys != nullptr) {
    score_page<kRows>(rows, WideKeys{rows.wide_keys}, weights);
  } else {
    score_page<kRows>(rows, StoredKeys{rows.keys}, weights);
  }
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

// How often the work on a page asks for the next one: at each step of score_page and add_values.
inline int64_t n_asks(const FastAttentionTask& task) {
  const int64_t head_dim = task.shape.head_dim;
  const int64_t of_scores = larger_of(head_dim / 2, 1) * (kPageTokens / (kScoreWidth * kLanes));
  const int64_t of_values = larger_of(head_dim / (kTotalWidth * kLanes), 1) * (kPageTokens / 2);
  return (task.n_rows() + kRowsAtOnce - 1) / kRowsAtOnce * (of_scores + of_values);
}

inline void attend_block(const FastAttentionTask& task) {
  gather_queries(task);
  start_rows(task);
  for (int64_t p = task.pages.begin; p < task.pages.end; ++p) {
    NextPage next;
    if (p + 1 < task.pages.end) next = NextPage(task, p + 1, n_asks(task));
    RowsOnPage rows = {
        .task = task, .page = p, .keys = page_keys(task, p), .values = page_values(task, p)};
    rows.next = &next;
    if (task.n_rows() > kFewRows) {
      widen_keys(rows.keys, task.shape.head_dim, task.keys);
      rows.wide_keys = task.keys;
    }
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
