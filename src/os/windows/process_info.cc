#include "os/process_info.h"

#include <windows.h>

// After windows.h.
#include <psapi.h>
#include <tlhelp32.h>

namespace penstock {

std::optional<ProcessInfo> process_info(int pid, const std::filesystem::path& /*root*/) {
  const HANDLE all = ::CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
  if (all == INVALID_HANDLE_VALUE) return std::nullopt;
  std::optional<ProcessInfo> found;
  PROCESSENTRY32W entry = {};
  entry.dwSize = sizeof(entry);
  for (BOOL is_one = ::Process32FirstW(all, &entry); is_one != FALSE && !found;
       is_one = ::Process32NextW(all, &entry)) {
    if (entry.th32ProcessID != static_cast<DWORD>(pid)) continue;
    found = ProcessInfo{.pid = pid,
                        .name = std::filesystem::path(entry.szExeFile).string(),
                        .parent = static_cast<int>(entry.th32ParentProcessID)};
  }
  ::CloseHandle(all);
  if (!found) return std::nullopt;
  const HANDLE process =
      ::OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, static_cast<DWORD>(pid));
  if (process == nullptr) return found;
  PROCESS_MEMORY_COUNTERS memory = {};
  if (::K32GetProcessMemoryInfo(process, &memory, sizeof(memory)) != FALSE) {
    found->rss_bytes = memory.WorkingSetSize;
  }
  ::CloseHandle(process);
  return found;
}

}  // namespace penstock
