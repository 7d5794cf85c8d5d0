// Chooses each token's experts from the router's logits.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/model_spec.h"

namespace penstock {

struct ExpertChoice {
  int32_t expert = 0;
  float weight = 0;
};

// logits [n_experts] f32 of one token, bias [n_experts] or empty -> chosen [top_k], heaviest score
// first, ties to the lower id. Formulas: docs/models.md, "Router kinds". All in float32 with
// float64 sums; the same on every isa.
void route(const RouterSpec& spec, std::span<const float> logits, std::span<const float> bias,
           std::span<ExpertChoice> chosen);

}  // namespace penstock
