#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/exp.h"

namespace penstock {
namespace {

float sum_of_lanes(float lanes[16]) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

float dot(const float* a, const float* b, int64_t n) {
  float lanes[16] = {};
  for (int64_t k = 0; k < n; ++k) lanes[k % 16] = std::fma(a[k], b[k], lanes[k % 16]);
  return sum_of_lanes(lanes);
}

// One head of one token, reading keys and values one position at a time.
class HeadReader {
 public:
  HeadReader(const PagedKv& kv, int64_t kv_head, int64_t head_dim)
      : kv_(kv), kv_head_(kv_head), head_dim_(head_dim) {}
  const float* key(int64_t j) const { return at(kv_.keys, j); }
  const float* value(int64_t j) const { return at(kv_.values, j); }

 private:
  const float* at(std::span<const float* const> pages, int64_t j) const {
    return pages[static_cast<size_t>(j / kPageTokens)] +
           (kv_head_ * kPageTokens + j % kPageTokens) * head_dim_;
  }

  const PagedKv& kv_;
  int64_t kv_head_;
  int64_t head_dim_;
};

// y[d] = sum of e_j v_j[d] over the visible keys, page by page.
void add_values(const HeadReader& kv, Range visible, const std::vector<float>& e, int64_t head_dim,
                float* y) {
  for (int64_t d = 0; d < head_dim; ++d) {
    float total = 0;
    for (int64_t j = visible.begin; j < visible.end;) {
      const int64_t page_end = std::min((j / kPageTokens + 1) * kPageTokens, visible.end);
      float part = 0;
      for (; j < page_end; ++j) {
        part = std::fma(e[static_cast<size_t>(j - visible.begin)], kv.value(j)[d], part);
      }
      total += part;
    }
    y[d] = total;
  }
}

void attend(const AttentionShape& shape, const float* q, Range visible, const HeadReader& kv,
            const float* sink, float* y) {
  std::vector<float> e(static_cast<size_t>(visible.size()));  // scores first, then their exp
  float max = sink != nullptr ? *sink : -ExpConstants::kInfinity;
  for (int64_t j = visible.begin; j < visible.end; ++j) {
    const float score = shape.scale * dot(q, kv.key(j), shape.head_dim);
    e[static_cast<size_t>(j - visible.begin)] = score;
    max = std::max(max, score);
  }

  float lanes[16] = {};
  for (int64_t j = visible.begin; j < visible.end; ++j) {
    float& e_j = e[static_cast<size_t>(j - visible.begin)];
    e_j = exp_exact(e_j - max);
    lanes[j % 16] += e_j;
  }
  float denominator = sum_of_lanes(lanes);
  if (sink != nullptr) denominator += exp_exact(*sink - max);

  add_values(kv, visible, e, shape.head_dim, y);
  for (int64_t d = 0; d < shape.head_dim; ++d) y[d] /= denominator;
}

}  // namespace

void attention_exact_ref(const AttentionShape& shape, Range heads, Rows<const float> q,
                         int64_t first_position, const PagedKv& kv, std::span<const float> sinks,
                         Rows<float> y) {
  for (int64_t t = 0; t < q.n_rows; ++t) {
    const int64_t i = first_position + t;
    const int64_t first_visible = shape.window > 0 ? std::max<int64_t>(0, i - shape.window + 1) : 0;
    for (int64_t h = heads.begin; h < heads.end; ++h) {
      const int64_t kv_head = h / (shape.n_heads / shape.n_kv_heads);
      const float* sink = sinks.empty() ? nullptr : &sinks[static_cast<size_t>(h)];
      attend(shape, q.row(t) + h * shape.head_dim, {first_visible, i + 1},
             HeadReader(kv, kv_head, shape.head_dim), sink, y.row(t) + h * shape.head_dim);
    }
  }
}

}  // namespace penstock
