#include "cli/bench/machine_json.h"

#include "base/version.h"
#include "os/cpu_name.h"

namespace penstock {

Json machine_json() { return {{"cpu", cpu_name()}, {"version", version()}, {"commit", commit()}}; }

}  // namespace penstock
