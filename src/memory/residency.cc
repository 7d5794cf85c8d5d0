#include "memory/residency.h"

#include <array>
#include <cstddef>

namespace penstock {

std::string_view to_string(Residency residency) {
  constexpr std::array<std::string_view, kResidencies> kNames = {"vram", "pinned", "locked",
                                                                 "pageable", "disk"};
  return kNames[static_cast<size_t>(residency)];
}

}  // namespace penstock
