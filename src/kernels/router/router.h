// Chooses each token's experts from the router's logits.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/model_spec.h"

namespace penstock {

struct ExpertChoice {
  int32_t expert = 0;
  float weight = 0;

  bool operator==(const ExpertChoice&) const = default;
};

// logits [n_experts] f32 of one token, bias [n_experts] or empty -> chosen [top_k]:
//   s = softmax or sigmoid of all logits;  c = s + bias
//   with n_groups > 1 only experts of the top_groups best groups can be chosen; a group's score is
//   the sum of its two highest c
//   chosen: highest c first, ties (groups too) to the lower id;  w = s, divided by the sum of the
//   chosen s if renormalize is set (sigmoid: the sum + 1e-20), times scale
// Formulas: docs/models.md, "Router kinds". In float32 with float64 sums, exp of kernels/exp.h: the
// same on every isa. A NaN is chosen last, so the ids are valid and distinct whatever the logits.
void route(const RouterSpec& spec, std::span<const float> logits, std::span<const float> bias,
           std::span<ExpertChoice> chosen);

}  // namespace penstock
