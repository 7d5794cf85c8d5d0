// What whoever started this process left in its environment.
#pragma once

#include <string_view>

namespace penstock {

// Empty when it is not set. Nothing in this process changes its environment, so the text stays.
std::string_view environment_variable(const char* name);

}  // namespace penstock
