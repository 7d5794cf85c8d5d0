// The arithmetic class of the CPU's kernels, chosen by --cpu-precision (docs/design.md section 6a).
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock {

enum class Precision : uint8_t { kExact, kFast };

constexpr std::string_view to_string(Precision precision) {
  return precision == Precision::kExact ? "exact" : "fast";
}

}  // namespace penstock
