#include "os/memory.h"

#include <windows.h>

#include <algorithm>

#include "base/integers.h"
#include "base/units.h"
#include "os/windows/working_set_calls.h"

namespace penstock {
namespace {

constexpr size_t kOsPage = 4 * kKiB;

MEMORYSTATUSEX memory_status() {
  MEMORYSTATUSEX status = {};
  status.dwLength = sizeof(status);
  if (::GlobalMemoryStatusEx(&status) == FALSE) return {};
  return status;
}

}  // namespace

// Windows promises each byte when it is asked for it: RAM comes with the first touch, but what
// exceeds the commit limit is refused here. Large pages want a privilege that nobody has unasked,
// so every wish gets normal ones.
Result<AnonymousMemory> AnonymousMemory::reserve(size_t bytes, OsPages /*pages*/) {
  const size_t mapped_bytes = round_up(std::max<size_t>(bytes, 1), kAlignment) + kAlignment;
  void* const base = ::VirtualAlloc(nullptr, mapped_bytes, MEM_RESERVE, PAGE_READWRITE);
  if (base == nullptr) {
    return fail(ErrorKind::kExhausted, "cannot reserve {} of addresses (Windows error {})",
                format_bytes(bytes), ::GetLastError());
  }
  const auto address = reinterpret_cast<uintptr_t>(base);
  auto* const aligned = static_cast<std::byte*>(base) + (round_up(address, kAlignment) - address);
  if (::VirtualAlloc(aligned, std::max<size_t>(bytes, 1), MEM_COMMIT, PAGE_READWRITE) == nullptr) {
    ::VirtualFree(base, 0, MEM_RELEASE);
    return std::unexpected(commit_refused(bytes, WindowsWorkingSetCalls().commit_state()));
  }
  return AnonymousMemory({aligned, bytes}, {static_cast<std::byte*>(base), mapped_bytes});
}

// A touch is what makes Windows give a page; a read does, and disturbs nobody who writes.
void AnonymousMemory::commit(size_t offset, size_t n) const {
  const size_t end = std::min(offset + n, bytes_.size());
  for (size_t at = offset / kOsPage * kOsPage; at < end; at += kOsPage) {
    [[maybe_unused]] const auto touched =
        *reinterpret_cast<const volatile unsigned char*>(bytes_.data() + at);
  }
}

AnonymousMemory::~AnonymousMemory() {
  if (!mapped_.empty()) ::VirtualFree(mapped_.data(), 0, MEM_RELEASE);
}

// RAM that is free or only caches, as far as it may still be promised.
uint64_t available_memory_bytes(const std::filesystem::path& /*root*/) {
  const MEMORYSTATUSEX status = memory_status();
  return std::min<uint64_t>(status.ullAvailPhys, status.ullAvailPageFile);
}

// Of the job that this process is in.
std::optional<uint64_t> cgroup_memory_limit(const std::filesystem::path& /*root*/) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {};
  if (::QueryInformationJobObject(nullptr, JobObjectExtendedLimitInformation, &limits,
                                  sizeof(limits), nullptr) == FALSE) {
    return std::nullopt;  // it is in none
  }
  std::optional<uint64_t> least;
  const auto limit = [&](DWORD flag, SIZE_T bytes) {
    if ((limits.BasicLimitInformation.LimitFlags & flag) == 0) return;
    least = std::min<uint64_t>(least.value_or(bytes), bytes);
  };
  limit(JOB_OBJECT_LIMIT_PROCESS_MEMORY, limits.ProcessMemoryLimit);
  limit(JOB_OBJECT_LIMIT_JOB_MEMORY, limits.JobMemoryLimit);
  return least;
}

uint64_t total_memory_bytes(const std::filesystem::path& /*root*/) {
  return memory_status().ullTotalPhys;
}

}  // namespace penstock
