// What this binary is: version, commit and compiler.
#pragma once

#include <string_view>

namespace penstock {

std::string_view version();            // "0.1.0"
std::string_view commit();             // of the tree it was built from, "+changes" if that differed
std::string_view compiler();           // "GNU 12.2.0", as CMake names it
std::string_view gpu_architectures();  // "sm_80 sm_90 ...", or "none"

}  // namespace penstock
