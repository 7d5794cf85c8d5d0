// A plan as one page that needs nothing else: bars, the layers as a grid coloured by residency,
// tables.
#pragma once

#include <string>
#include <vector>

#include "memory/plan/alternatives.h"
#include "memory/plan/plan.h"

namespace penstock {

std::string plan_html(const Plan& plan, const ModelDemands& demands, const Machine& machine,
                      const std::vector<Alternative>& alternatives);

}  // namespace penstock
