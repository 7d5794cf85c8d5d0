#include "engine/sampling/logprobs.h"

#include <algorithm>
#include <cmath>

#include "engine/sampling/logit_row.h"
#include "engine/sampling/softmax.h"

namespace penstock {
namespace {

std::vector<int32_t> most_likely(const LogitRow& row, int n) {
  if (n == 0) return {};
  const size_t n_kept = std::min(static_cast<size_t>(n), row.logits().size());
  std::vector<int32_t> ids = row.ids_from(row.reached_by(n_kept));
  const auto likelier = [&](int32_t a, int32_t b) {
    const float za = row.logits()[static_cast<size_t>(a)];
    const float zb = row.logits()[static_cast<size_t>(b)];
    return za != zb ? za > zb : a < b;
  };
  std::ranges::partial_sort(ids, ids.begin() + static_cast<ptrdiff_t>(n_kept), likelier);
  ids.resize(n_kept);
  return ids;
}

}  // namespace

Result<SampledToken> with_logprobs(Isa isa, std::span<const float> logits, int32_t id, int n_top) {
  PENSTOCK_ASSIGN(const LogitRow row, LogitRow::read(isa, logits));
  const Softmax softmax(isa, row, /*temperature=*/1.0);
  const double log_sum = std::log(softmax.add_up().weight);
  const auto logprob = [&](int32_t token) {
    const double exact = softmax.lead(logits[static_cast<size_t>(token)]) - log_sum;
    return static_cast<float>(std::clamp(exact, double{kLeastLogprob}, 0.0));
  };
  SampledToken token{.id = id, .logprob = logprob(id)};
  for (const int32_t likely : most_likely(row, n_top)) {
    token.top.push_back({.id = likely, .logprob = logprob(likely)});
  }
  return token;
}

}  // namespace penstock
