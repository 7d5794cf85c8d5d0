// Bytes, durations and rates as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

std::string format_bytes(uint64_t bytes);    // "97.3 MiB"
std::string format_seconds(double seconds);  // "850 ms", "12.3 s", "4 min 05 s"
std::string format_count(uint64_t count);    // "134,515,008"

}  // namespace penstock
