// Other ways to run a model on a machine and what each would cost, for whoever decides about flags
// or a purchase.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memory/plan/plan.h"

namespace penstock {

struct Alternative {
  std::string change = {};        // the flag, or what the machine would have to have
  std::optional<Plan> plan = {};  // absent: it does not fit
  std::string shortfall = {};     // then why
};

// Those that differ from `plan`, flags first. The limits are those that `plan` was made with.
std::vector<Alternative> alternatives_to(const Plan& plan, const ModelDemands& demands,
                                         const Machine& machine, const Limits& limits);

}  // namespace penstock
