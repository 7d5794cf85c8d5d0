#include "memory/profile/this_machine.h"

#include <fmt/format.h>

#include "memory/profile/machine_facts.h"
#include "memory/profile/machine_profile.h"

namespace penstock {

ThisMachine this_machine() {
  ThisMachine here = {.machine = machine_facts(gpus_here())};
  const FoundProfile found = find_profile(profile_path(), here.machine.key);
  if (found.profile) {
    adopt_rates(*found.profile, here.machine);
    const bool is_quick = found.profile->effort == "quick";
    here.note = fmt::format("rates: measured by doctor{} on {}", is_quick ? " --quick" : "",
                            found.profile->date);
  } else if (!found.note.empty()) {
    here.note = found.note;
  } else {
    here.note = "rates: not known; `penstock doctor` measures them";
  }
  return here;
}

}  // namespace penstock
