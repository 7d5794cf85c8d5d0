// What the system is, beside what it lets this process have: its kernel, whether that is WSL2's,
// and how it treats memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

// Each reads /proc or /sys below `root` (tests bring their own).

// "6.1.0-38-amd64"; "unknown" when the kernel does not say.
std::string kernel_release(const std::filesystem::path& root = "/");

// Linux inside Windows, whose memory is what .wslconfig gives it.
bool is_wsl2(const std::filesystem::path& root = "/");

// Swap space, in use or not; 0 where there is none.
uint64_t swap_bytes(const std::filesystem::path& root = "/");

// How many programs wanted a CPU at a time, over the last minute; 0 when the kernel does not say.
double load_average(const std::filesystem::path& root = "/");

// Who gets transparent huge pages.
enum class HugePages : uint8_t { kAlways, kWhoAsks, kNever };
std::string_view to_string(HugePages policy);  // as the kernel writes it: "madvise"
std::optional<HugePages> huge_pages(const std::filesystem::path& root = "/");

// Of the first CPU's largest cache; 0 when the kernel does not say.
uint64_t largest_cache_bytes(const std::filesystem::path& root = "/");

}  // namespace penstock
