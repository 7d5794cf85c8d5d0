#include "memory/profile/lock_probe.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"
#include "os/locked_memory.h"
#include "os/memory.h"

namespace penstock {
namespace {

constexpr uint64_t kLargestPiece = 64 * kMiB;
constexpr uint64_t kSmallestPiece = 64 * kKiB;  // many OS pages on any system

}  // namespace

LockProbe probe_locks(uint64_t most_bytes) {
  LockProbe probe;
  const auto memory = AnonymousMemory::reserve(most_bytes, OsPages::kHuge);
  if (!memory) return probe;
  std::vector<LockedRange> locked;
  for (uint64_t piece = kLargestPiece; piece >= kSmallestPiece;) {
    const uint64_t bytes = std::min(piece, most_bytes - probe.locked_bytes);
    if (bytes < kSmallestPiece) break;
    auto range = LockedRange::lock(memory->bytes().subspan(probe.locked_bytes, bytes));
    if (range) {
      locked.push_back(*std::move(range));
      probe.locked_bytes += bytes;
    } else {
      probe.was_refused = true;
      piece /= 2;
    }
  }
  return probe;
}

}  // namespace penstock
