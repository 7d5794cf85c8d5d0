// Names threads for whoever looks at a running process (top -H, a debugger, a profiler).
#pragma once

#include <string>

namespace penstock {

// At most 15 bytes; what is more is cut off.
void name_this_thread(const std::string& name);

}  // namespace penstock
