// What all isa files of attention_fast do with the rows of a block: include kernels/lanes_<isa>.h
// first.
#pragma once

#include "kernels/attention/attention_fast_task.h"

namespace penstock {
namespace {

inline void start_rows(const FastAttentionTask& task) {
  for (int64_t row = 0; row < task.n_rows(); ++row) {
    const int64_t h = task.heads.begin + row % task.heads.size();
    task.maxima[row] = task.sinks.empty() ? kLowestMax : task.sinks.data()[h] * kLog2E;
    store(task.sums.row(row), keep(all(1.0F), 0, task.sinks.empty() ? 0 : 1, zero()));
    for (int64_t d = 0; d < task.totals.cols; d += kLanes) store(task.totals.row(row) + d, zero());
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

}  // namespace
}  // namespace penstock
