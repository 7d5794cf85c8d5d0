// Reads files of "label number" lines, as /proc and the cgroup file systems have many.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace penstock {

// The number behind `label`, written to the base 10 or 16 without a prefix.
std::optional<uint64_t> read_labelled(const std::filesystem::path& path, std::string_view label,
                                      int base = 10);

}  // namespace penstock
