// The operating system's name for an open file, for the classes that own one.
#pragma once

#include <cstdint>

namespace penstock {

#ifdef _WIN32
using FileHandle = intptr_t;  // a HANDLE; INVALID_HANDLE_VALUE is -1 too
#else
using FileHandle = int;  // a descriptor
#endif
inline constexpr FileHandle kNoFile = -1;

}  // namespace penstock
