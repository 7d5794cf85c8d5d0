// How many experts have a slot at a time, as users say it with --expert-slots.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace penstock {

// A number, or a share of all experts; neither: whatever fits.
struct ExpertSlots {
  std::optional<int64_t> count = {};
  std::optional<double> share = {};  // (0, 1]
  bool is_given() const { return count || share; }

  // Of a model with n_experts, rounded down and at least 1; 0 where neither is given.
  int64_t of(int64_t n_experts) const;
};

// "300", "25%" or "all".
Result<ExpertSlots> parse_expert_slots(std::string_view text);

}  // namespace penstock
