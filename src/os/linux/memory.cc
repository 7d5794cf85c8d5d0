#include "os/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/integers.h"
#include "base/units.h"
#include "os/linux/cgroup.h"
#include "os/linux/labelled.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// A file's only number; nothing where it is "max" or cannot be read.
std::optional<uint64_t> read_bytes(const fs::path& path) {
  const auto numbers = read_numbers(path, 1);
  if (!numbers || (*numbers)[0] < 0 || (*numbers)[0] >= 0x1p63) return std::nullopt;
  return static_cast<uint64_t>((*numbers)[0]);
}

std::optional<uint64_t> limit_of(const fs::path& group, CgroupVersion version) {
  const bool is_v2 = version == CgroupVersion::kV2;
  return read_bytes(group / (is_v2 ? "memory.max" : "memory.limit_in_bytes"));
}

// What a group still allows its processes. The page cache that nobody looked at lately is given
// back before an allocation fails, so it is not in use.
uint64_t headroom(const fs::path& group, CgroupVersion version) {
  const bool is_v2 = version == CgroupVersion::kV2;
  const auto limit = limit_of(group, version);
  if (!limit) return kUnlimited;
  const uint64_t used =
      read_bytes(group / (is_v2 ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
  const uint64_t cache =
      read_labelled(group / "memory.stat", is_v2 ? "inactive_file" : "total_inactive_file")
          .value_or(0);
  const uint64_t kept = used - std::min(used, cache);
  return *limit - std::min(*limit, kept);
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

void AnonymousMemory::commit(size_t offset, size_t n) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = offset / page * page;
  const size_t end = std::min(round_up(offset + n, page), round_up(bytes_.size(), kAlignment));
#ifdef MADV_POPULATE_WRITE
  if (begin < end) ::madvise(bytes_.data() + begin, end - begin, MADV_POPULATE_WRITE);
#endif
}

AnonymousMemory::~AnonymousMemory() {
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
}

uint64_t available_memory_bytes(const fs::path& root) {
  uint64_t available = read_labelled(root / "proc/meminfo", "MemAvailable:").value_or(0) * kKiB;
  for_each_cgroup(root, "memory", [&](const fs::path& group, CgroupVersion version) {
    available = std::min(available, headroom(group, version));
  });
  return available;
}

// v1 writes a huge number where nothing limits a group.
std::optional<uint64_t> cgroup_memory_limit(const fs::path& root) {
  uint64_t least = kUnlimited;
  for_each_cgroup(root, "memory", [&](const fs::path& group, CgroupVersion version) {
    least = std::min(least, limit_of(group, version).value_or(kUnlimited));
  });
  if (least >= total_memory_bytes(root)) return std::nullopt;
  return least;
}

uint64_t total_memory_bytes(const fs::path& root) {
  return read_labelled(root / "proc/meminfo", "MemTotal:").value_or(0) * kKiB;
}

}  // namespace penstock
