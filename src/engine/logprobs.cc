#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace penstock {
namespace {

std::vector<int32_t> most_likely(std::span<const float> logits, int n) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const size_t n_kept = std::min(static_cast<size_t>(n), ids.size());
  const auto likelier = [&](int32_t a, int32_t b) {
    const float za = logits[static_cast<size_t>(a)];
    const float zb = logits[static_cast<size_t>(b)];
    return za != zb ? za > zb : a < b;
  };
  std::ranges::partial_sort(ids, ids.begin() + static_cast<ptrdiff_t>(n_kept), likelier);
  ids.resize(n_kept);
  return ids;
}

}  // namespace

SampledToken with_logprobs(std::span<const float> logits, int32_t id, int n_top) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double log_sum = std::log(sum);
  const auto logprob = [&](int32_t token) {
    const double exact = (logits[static_cast<size_t>(token)] - largest) - log_sum;
    return static_cast<float>(std::clamp(exact, double{kLeastLogprob}, 0.0));
  };
  SampledToken token{.id = id, .logprob = logprob(id)};
  if (n_top > 0) {
    for (const int32_t likely : most_likely(logits, n_top)) {
      token.top.push_back({.id = likely, .logprob = logprob(likely)});
    }
  }
  return token;
}

}  // namespace penstock
