#include "os/system_info.h"

#include <fmt/format.h>
#include <windows.h>

#include <algorithm>
#include <vector>

namespace penstock {

// GetVersionEx answers with what the program was built for; the loader's own function does not.
std::string kernel_release(const std::filesystem::path& /*root*/) {
  const HMODULE ntdll = ::GetModuleHandleW(L"ntdll.dll");
  if (ntdll == nullptr) return "unknown";
  using GetVersion = LONG WINAPI(OSVERSIONINFOW*);
  auto* const get = reinterpret_cast<GetVersion*>(
      reinterpret_cast<void*>(::GetProcAddress(ntdll, "RtlGetVersion")));
  OSVERSIONINFOW version = {};
  version.dwOSVersionInfoSize = sizeof(version);
  if (get == nullptr || get(&version) != 0) return "unknown";
  return fmt::format("{}.{}.{}", version.dwMajorVersion, version.dwMinorVersion,
                     version.dwBuildNumber);
}

bool is_wsl2(const std::filesystem::path& /*root*/) { return false; }

// What the commit limit has beyond RAM.
uint64_t swap_bytes(const std::filesystem::path& /*root*/) {
  MEMORYSTATUSEX status = {};
  status.dwLength = sizeof(status);
  if (::GlobalMemoryStatusEx(&status) == FALSE) return 0;
  return status.ullTotalPageFile - std::min(status.ullTotalPageFile, status.ullTotalPhys);
}

double load_average(const std::filesystem::path& /*root*/) { return 0; }  // Windows keeps none

std::string_view to_string(HugePages policy) {
  switch (policy) {
    case HugePages::kAlways:
      return "always";
    case HugePages::kWhoAsks:
      return "madvise";
    case HugePages::kNever:
      return "never";
  }
  return "unknown";
}

// There are no transparent ones.
std::optional<HugePages> huge_pages(const std::filesystem::path& /*root*/) { return std::nullopt; }

uint64_t largest_cache_bytes(const std::filesystem::path& /*root*/) {
  DWORD bytes = 0;
  ::GetLogicalProcessorInformation(nullptr, &bytes);
  std::vector<SYSTEM_LOGICAL_PROCESSOR_INFORMATION> all(
      bytes / sizeof(SYSTEM_LOGICAL_PROCESSOR_INFORMATION));
  if (all.empty() || ::GetLogicalProcessorInformation(all.data(), &bytes) == FALSE) return 0;
  uint64_t largest = 0;
  for (const auto& one : all) {
    if (one.Relationship == RelationCache) largest = std::max<uint64_t>(largest, one.Cache.Size);
  }
  return largest;
}

}  // namespace penstock
