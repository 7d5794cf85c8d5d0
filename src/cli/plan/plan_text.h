// A plan for the terminal: bars of RAM, VRAM and disk, the layers as a grid, tables.
#pragma once

#include <string>
#include <vector>

#include "memory/plan/alternatives.h"
#include "memory/plan/plan.h"

namespace penstock {

struct TextStyle {
  int columns = 80;
  bool has_blocks = false;  // UTF-8's block characters; plain ASCII otherwise
};

// Every line fits style.columns, as far as that is not narrower than 40.
std::string plan_text(const Plan& plan, const ModelDemands& demands, const Machine& machine,
                      const std::vector<Alternative>& alternatives, const TextStyle& style);

}  // namespace penstock
