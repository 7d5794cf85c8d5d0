// Bytes, durations and rates as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

std::string format_bytes(uint64_t bytes);    // "97.3 MiB"
std::string format_seconds(double seconds);  // "850 ms", "12.3 s", "4 min 05 s"
std::string format_count(uint64_t count);    // "134,515,008"

// A size as people write it: "512MiB", "7.5 GiB", "8G", "24GB", "0". K, M, G and T are powers of
// 1024 alone and before iB, powers of 1000 before B; case does not matter. A bare number is in GiB.
Result<uint64_t> parse_bytes(std::string_view text);

}  // namespace penstock
