// Which memory controllers the OS pages of an address range come from, on machines with several.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace penstock {

// Asks that the OS pages of `bytes`, none touched yet, come from these NUMA nodes in turn, or from
// the one given; where a node has no memory left, from another. `bytes` begins at an OS page.
// The kernel may refuse (containers often forbid it): then they come from the node of the thread
// that touches them first.
Result<void> place_on_nodes(std::span<std::byte> bytes, std::span<const int> nodes);

}  // namespace penstock
