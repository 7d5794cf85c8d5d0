// What the processor calls itself, for reports.
#pragma once

#include <string>

namespace penstock {

std::string cpu_name();  // "unknown" when the kernel does not say

}  // namespace penstock
