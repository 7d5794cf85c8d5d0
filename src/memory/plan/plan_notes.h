// What a plan could not do as one would wish, in sentences.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memory/plan/plan.h"

namespace penstock {

// left_out: what a GPU that is not used lacks, if that is why.
std::vector<std::string> notes_of(const ModelDemands& demands, const Machine& machine,
                                  const Limits& limits, const Plan& plan,
                                  const std::optional<Shortfall>& left_out);

// Of these, what a load's report does not show by itself.
std::vector<std::string> load_notes_of(const ModelDemands& demands, const Machine& machine,
                                       const Limits& limits, const Plan& plan);

}  // namespace penstock
