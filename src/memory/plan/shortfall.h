// What would make a model fit that does not.
#pragma once

#include <string>

#include "memory/plan/plan.h"

namespace penstock {

// One flag and the value nearest to what the limits say with which a plan is found; where no flag
// helps, how much more memory there must be.
std::string smallest_fix(const ModelDemands& demands, const Machine& machine, const Limits& limits,
                         const Shortfall& shortfall);

}  // namespace penstock
