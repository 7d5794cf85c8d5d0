// Where a layer's bank is: the experts of that layer, all together.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock {

enum class Residency : uint8_t {
  kVram,      // whole, and nowhere else
  kPinned,    // in page-locked RAM, which the GPU may read
  kLocked,    // in RAM that the system may not swap out; CPU only
  kPageable,  // in RAM that it may
  kDisk,      // its experts come into slots as they are needed
};
inline constexpr int kResidencies = static_cast<int>(Residency::kDisk) + 1;

std::string_view to_string(Residency residency);  // "vram"

}  // namespace penstock
