// pread(2) until everything is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace penstock {

// Fills `out` from `offset` on. A file that ends earlier is an error with its path, what was wanted
// and what was got.
Result<void> read_all_at(int fd, uint64_t offset, std::span<std::byte> out,
                         const std::filesystem::path& path);

}  // namespace penstock
