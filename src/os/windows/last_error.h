// Windows' error numbers as errors of ours.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace penstock {

// Of GetLastError().
std::unexpected<Error> last_error(std::string_view action, const std::filesystem::path& path);
std::unexpected<Error> windows_error(uint32_t code, std::string_view action,
                                     const std::filesystem::path& path);

// The errno that means the same; EIO where there is none.
int errno_of(uint32_t code);

}  // namespace penstock
