// What every report of `bench` says about where its numbers come from.
#pragma once

#include "base/json.h"

namespace penstock {

// {"cpu": ..., "version": ..., "commit": ...}
Json machine_json();

}  // namespace penstock
