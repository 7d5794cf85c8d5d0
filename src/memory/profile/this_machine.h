// This machine as a plan needs it: what it has now, with the rates that `doctor` measured once.
#pragma once

#include <string>

#include "memory/plan/machine.h"

namespace penstock {

struct ThisMachine {
  Machine machine = {};
  std::string note = {};  // where its rates come from, or why there are none
};

ThisMachine this_machine();

}  // namespace penstock
