// write(2) until everything is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace penstock {

// Adds to n_written what was written, before an error too, which says what could not be done with
// what: "write", path.
Result<void> write_all(int fd, std::span<const std::byte> bytes, uint64_t& n_written,
                       std::string_view action, const std::filesystem::path& path);

}  // namespace penstock
