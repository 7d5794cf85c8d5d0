// A plan for programs: everything it was made from and everything it says.
#pragma once

#include <vector>

#include "base/json.h"
#include "memory/plan/alternatives.h"
#include "memory/plan/plan.h"

namespace penstock {

OrderedJson plan_json(const Plan& plan, const ModelDemands& demands, const Machine& machine,
                      const std::vector<Alternative>& alternatives);
OrderedJson shortfall_json(const Shortfall& shortfall, const ModelDemands& demands,
                           const Machine& machine);

}  // namespace penstock
