// Which tokens may be drawn after top_k, top_p, min_p and typical_p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/logit_row.h"
#include "engine/sampling/sampling_options.h"
#include "engine/sampling/softmax.h"

namespace penstock {

// Whether an option asks for less than all of `n_tokens` tokens.
bool cuts(const SamplingOptions& options, size_t n_tokens);

// The tokens that survive the cuts, in no order that means anything, but always the same one.
//   top_k      the k largest logits
//   top_p      the fewest of the largest whose probabilities sum to top_p or more
//   min_p      probabilities of min_p times the largest or more
//   typical_p  the fewest of those with the smallest |-log p - H| whose probabilities sum to
//              typical_p or more, H = -sum p log p: Meister et al., arXiv:2202.00666
// one after the other, probabilities made to sum to 1 before each. At least one is left; among
// equals the lower id comes first. `softmax` is over `row`.
std::vector<Candidate> cut(const SamplingOptions& options, const LogitRow& row,
                           const Softmax& softmax);

// position: [0, 1), a place among all weights laid end to end. At least one candidate.
int32_t draw(std::span<const Candidate> candidates, double position);

}  // namespace penstock
