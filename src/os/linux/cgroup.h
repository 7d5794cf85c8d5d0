// Finds the cgroups, v1 or v2, that bind this process: its own and every group around it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace penstock {

enum class CgroupVersion : uint8_t { kV1, kV2 };

// f(directory, version) for each group that binds the process under `controller`, its own first,
// out to the mount point, in the hierarchy of that controller (v1) and in the unified one (v2).
// Reads /proc/self and the cgroup file systems below `root`.
void for_each_cgroup(const std::filesystem::path& root, std::string_view controller,
                     const std::function<void(const std::filesystem::path&, CgroupVersion)>& f);

// The first `count` numbers of a file, or nothing: "max" and unreadable files are no numbers.
std::optional<std::vector<double>> read_numbers(const std::filesystem::path& path, size_t count);

}  // namespace penstock
