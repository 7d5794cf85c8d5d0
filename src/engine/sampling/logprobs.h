// The log probabilities that a client sees beside its tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cpu/isa.h"

namespace penstock {

inline constexpr int kMostTopLogprobs = 20;

// What is shown for anything less likely, and for a logit of -inf: JSON has no infinity, and
// OpenAI's API documents this number for "very unlikely".
inline constexpr float kLeastLogprob = -9999.0F;

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0.0F;  // [kLeastLogprob, 0]

  bool operator==(const TokenLogprob&) const = default;
};

// A chosen token. The log probabilities are there when they were asked for.
struct SampledToken {
  int32_t id = 0;
  std::optional<float> logprob = {};
  std::vector<TokenLogprob> top = {};  // the most likely tokens, in order; `id` may be among them

  bool operator==(const SampledToken&) const = default;
};

// `id` with its log probability, and the n_top most likely tokens (of equals the lower id first;
// fewer where the vocabulary has fewer).
//   log p(i) = (z_i - z_max) - log(sum_j exp(z_j - z_max))
// in float64 but for the exp, so within 1e-6 of that.
//   logits [vocab_size]; NaN, +inf or nothing finite among them is a kInternal error
Result<SampledToken> with_logprobs(Isa isa, std::span<const float> logits, int32_t id, int n_top);

}  // namespace penstock
