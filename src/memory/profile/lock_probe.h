// How much RAM the kernel really lets a process lock, tried out.
#pragma once

#include <cstdint>

namespace penstock {

struct LockProbe {
  uint64_t locked_bytes = 0;  // at once
  bool was_refused = false;   // more than that; else the probe stopped there by itself
};

// Locks up to `most_bytes` in pieces, and gives all back. An upper bound of what a process gets
// that has memory of its own as well.
LockProbe probe_locks(uint64_t most_bytes);

}  // namespace penstock
