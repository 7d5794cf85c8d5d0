#include "os/numa.h"

namespace penstock {

// Windows takes a node when addresses are reserved (VirtualAllocExNuma), not afterwards; until then
// pages come from the node of the thread that touches them first.
Result<void> place_on_nodes(std::span<std::byte> bytes, std::span<const int> nodes) {
  if (bytes.empty() || nodes.empty()) return {};
  return fail(ErrorKind::kUnsupported,
              "cannot place memory on NUMA nodes: Windows wants the node when memory is reserved");
}

}  // namespace penstock
