#include "os/windows/working_set_calls.h"

#include <windows.h>

#include "os/windows/last_error.h"

namespace penstock {

Result<WorkingSetLimits> WindowsWorkingSetCalls::limits() const {
  SIZE_T minimum = 0;
  SIZE_T maximum = 0;
  DWORD flags = 0;
  if (::GetProcessWorkingSetSizeEx(::GetCurrentProcess(), &minimum, &maximum, &flags) == FALSE) {
    return last_error("ask for", "the working set's limits");
  }
  return WorkingSetLimits{.minimum_bytes = minimum, .maximum_bytes = maximum};
}

Result<void> WindowsWorkingSetCalls::set_limits(const WorkingSetLimits& limits) {
  // Soft limits, as every process has them: a hard minimum asks for RAM that others then lack.
  constexpr DWORD kSoft = QUOTA_LIMITS_HARDWS_MIN_DISABLE | QUOTA_LIMITS_HARDWS_MAX_DISABLE;
  if (::SetProcessWorkingSetSizeEx(::GetCurrentProcess(), limits.minimum_bytes,
                                   limits.maximum_bytes, kSoft) == FALSE) {
    return last_error("set", "the working set's limits");
  }
  return {};
}

Result<void> WindowsWorkingSetCalls::lock(std::span<std::byte> bytes) {
  if (::VirtualLock(bytes.data(), bytes.size()) == FALSE) return last_error("lock", "memory");
  return {};
}

Result<void> WindowsWorkingSetCalls::unlock(std::span<std::byte> bytes) {
  if (::VirtualUnlock(bytes.data(), bytes.size()) == FALSE) return last_error("unlock", "memory");
  return {};
}

Result<CommitState> WindowsWorkingSetCalls::commit_state() const {
  MEMORYSTATUSEX status = {};
  status.dwLength = sizeof(status);
  if (::GlobalMemoryStatusEx(&status) == FALSE) return last_error("ask for", "the commit limit");
  return CommitState{.limit_bytes = status.ullTotalPageFile,
                     .available_bytes = status.ullAvailPageFile};
}

}  // namespace penstock
