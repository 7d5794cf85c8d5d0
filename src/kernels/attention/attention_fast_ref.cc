#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/attention/attention_fast.h"
#include "kernels/attention/exp2.h"
#include "tensor/scalar_types.h"

namespace penstock {
namespace {

// One kv head's keys and values, one position at a time.
struct HeadOfPages {
  const PagedKvBf16& kv;
  int64_t kv_head;
  int64_t head_dim;

  float key(int64_t j, int64_t d) const {
    const uint16_t* const page = kv.keys[static_cast<size_t>(j / kPageTokens)];
    return bf16_to_f32(
        page[kv_head * kPageTokens * head_dim + key_place(head_dim, j % kPageTokens, d)]);
  }
  float value(int64_t j, int64_t d) const {
    const uint16_t* const page = kv.values[static_cast<size_t>(j / kPageTokens)];
    const int64_t pair = kv_head * kPageTokens / 2 + j % kPageTokens / 2;
    return bf16_to_f32(page[(pair * head_dim + d) * 2 + j % 2]);
  }
};

float round_to_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }

// To the nearest bf16, ties up.
float round_weight(float w) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(w) + 0x8000U) & 0xFFFF0000U);
}

// m, l and o of the header, of one row.
struct OnlineSoftmax {
  OnlineSoftmax(int64_t head_dim, const float* sink)
      : m(sink != nullptr ? *sink * std::numbers::log2e_v<float>
                          : std::numeric_limits<float>::lowest()),
        o(static_cast<size_t>(head_dim)) {
    if (sink != nullptr) l[0] = 1;
  }

  // Scores of the positions from `first` on, all in one page.
  void add(const std::vector<float>& scores, int64_t first, const HeadOfPages& kv) {
    const float larger = std::max(m, *std::max_element(scores.begin(), scores.end()));
    const float factor = exp2_fast(m - larger);
    m = larger;
    for (float& lane : l) lane *= factor;
    for (float& each : o) each *= factor;
    for (size_t i = 0; i < scores.size(); ++i) {
      const int64_t j = first + static_cast<int64_t>(i);
      const float weight = exp2_fast(scores[i] - m);
      l[j % 16] += weight;
      for (size_t d = 0; d < o.size(); ++d) {
        o[d] = std::fma(round_weight(weight), kv.value(j, static_cast<int64_t>(d)), o[d]);
      }
    }
  }

  float sum() {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) l[i] += l[i + half];
    }
    return l[0];
  }

  float m;
  float l[16] = {};
  std::vector<float> o;
};

void attend(const AttentionShape& shape, const float* q, Range visible, const HeadOfPages& kv,
            const float* sink, float* y) {
  std::vector<float> a(static_cast<size_t>(shape.head_dim));
  for (size_t d = 0; d < a.size(); ++d) {
    a[d] = round_to_bf16(shape.scale * std::numbers::log2e_v<float> * q[d]);
  }
  OnlineSoftmax state(shape.head_dim, sink);
  for (int64_t j = visible.begin; j < visible.end;) {
    const int64_t first = j;
    std::vector<float> scores;
    for (; j < visible.end && j / kPageTokens == first / kPageTokens; ++j) {
      float score = 0;
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        score = std::fma(a[static_cast<size_t>(d)], kv.key(j, d), score);
      }
      scores.push_back(score);
    }
    state.add(scores, first, kv);
  }
  const float sum = state.sum();
  for (int64_t d = 0; d < shape.head_dim; ++d) y[d] = state.o[static_cast<size_t>(d)] / sum;
}

}  // namespace

void attention_fast_ref(const AttentionShape& shape, Range heads, Rows<const float> q,
                        int64_t first_position, const PagedKvBf16& kv, std::span<const float> sinks,
                        Rows<float> y) {
  for (int64_t t = 0; t < q.n_rows; ++t) {
    const int64_t i = first_position + t;
    const int64_t first_visible = shape.window > 0 ? std::max<int64_t>(0, i - shape.window + 1) : 0;
    for (int64_t h = heads.begin; h < heads.end; ++h) {
      const HeadOfPages head = {kv, h / (shape.n_heads / shape.n_kv_heads), shape.head_dim};
      attend(shape, q.row(t) + h * shape.head_dim, {first_visible, i + 1}, head,
             sinks.empty() ? nullptr : &sinks[static_cast<size_t>(h)],
             y.row(t) + h * shape.head_dim);
    }
  }
}

}  // namespace penstock
