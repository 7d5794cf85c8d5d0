#include "os/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "base/integers.h"
#include "base/units.h"

namespace penstock {
namespace {

constexpr size_t kAlignment = 2 * kMiB;

// The number that follows `label` in a file of "label number" lines or, with an empty label, the
// file's only number.
uint64_t read_number(const char* path, const std::string& label, uint64_t otherwise) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (!label.empty() && word != label) continue;
    if (!label.empty() && !(file >> word)) return otherwise;
    const bool is_number =
        !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
    return is_number && word.size() < 20 ? std::stoull(word) : otherwise;
  }
  return otherwise;
}

// What the memory cgroup this process sees at its root still allows; the largest number when there
// is no limit.
uint64_t cgroup_headroom() {
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  const uint64_t limit =
      std::min(read_number("/sys/fs/cgroup/memory.max", "", kNone),
               read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", "", kNone));
  if (limit == kNone) return kNone;
  const uint64_t used = std::max(read_number("/sys/fs/cgroup/memory.current", "", 0),
                                 read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes", "", 0));
  return limit > used ? limit - used : 0;
}

}  // namespace

Result<AnonymousMemory> AnonymousMemory::reserve(size_t bytes, OsPages pages) {
  const size_t mapped_bytes = round_up(std::max<size_t>(bytes, 1), kAlignment) + kAlignment;
  void* const base = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return fail(ErrorKind::kExhausted, "cannot reserve {} of memory: {}", format_bytes(bytes),
                Error::from_errno(errno, "map", "").message);
  }
  const auto address = reinterpret_cast<uintptr_t>(base);
  auto* const aligned = static_cast<std::byte*>(base) + (round_up(address, kAlignment) - address);
  if (pages != OsPages::kNormal) {
    const int advice = pages == OsPages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
    ::madvise(aligned, round_up(bytes, kAlignment), advice);  // a wish: refusal changes nothing
  }
  return AnonymousMemory({aligned, bytes}, {static_cast<std::byte*>(base), mapped_bytes});
}

AnonymousMemory::~AnonymousMemory() {
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
}

uint64_t available_memory_bytes() {
  const uint64_t available = read_number("/proc/meminfo", "MemAvailable:", 0) * kKiB;
  return std::min(available, cgroup_headroom());
}

}  // namespace penstock
