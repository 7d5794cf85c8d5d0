#include "os/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <vector>

namespace penstock {
namespace {

constexpr size_t kBits = sizeof(unsigned long) * CHAR_BIT;

// The set of nodes as mbind(2) takes it.
std::vector<unsigned long> mask_of(std::span<const int> nodes) {
  std::vector<unsigned long> mask;
  for (const int node : nodes) {
    const auto bit = static_cast<size_t>(node);
    if (mask.size() <= bit / kBits) mask.resize(bit / kBits + 1);
    mask[bit / kBits] |= 1UL << (bit % kBits);
  }
  return mask;
}

}  // namespace

Result<void> place_on_nodes(std::span<std::byte> bytes, std::span<const int> nodes) {
  if (bytes.empty() || nodes.empty()) return {};
  const std::vector<unsigned long> mask = mask_of(nodes);
  const int mode = nodes.size() == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE;
  // The kernel counts one bit less than it is told.
  const size_t n_bits = mask.size() * kBits + 1;
  if (::syscall(SYS_mbind, bytes.data(), bytes.size(), mode, mask.data(), n_bits, 0) == 0) {
    return {};
  }
  return std::unexpected(Error::from_errno(errno, "place", "memory on NUMA nodes"));
}

}  // namespace penstock
