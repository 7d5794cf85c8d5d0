#include "os/locked_memory.h"

#include "os/windows/working_set_calls.h"

namespace penstock {
namespace {

// The working set belongs to the process, as a limit on locks does on Linux.
WorkingSet& working_set() {
  static WindowsWorkingSetCalls calls;
  static WorkingSet set(calls);
  return set;
}

}  // namespace

// Nothing limits it beforehand: the working set's minimum grows with what is locked, until RAM
// ends.
uint64_t memlock_limit(const std::filesystem::path& /*root*/) { return kNoMemlockLimit; }

uint64_t locked_memory_bytes(const std::filesystem::path& /*root*/) {
  return working_set().locked_bytes();
}

Result<LockedRange> LockedRange::lock(std::span<std::byte> bytes) {
  PENSTOCK_TRY(working_set().lock(bytes));
  return LockedRange(bytes);
}

LockedRange::~LockedRange() { working_set().unlock(bytes_); }

}  // namespace penstock
