#include "os/locked_memory.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "base/check.h"
#include "base/units.h"
#include "os/linux/labelled.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// By number: the sanitizers make the C library's mlock do nothing (LockedMemory.* in the preset
// asan).
int lock_pages(std::span<std::byte> bytes) {
  return static_cast<int>(::syscall(SYS_mlock, bytes.data(), bytes.size()));
}
void unlock_pages(std::span<std::byte> bytes) {
  ::syscall(SYS_munlock, bytes.data(), bytes.size());
}

// Whether the machine's own user ids are in force: what a process may do in a container with ids of
// its own counts nothing for memory.
bool is_in_first_user_namespace(const fs::path& root) {
  std::ifstream file(root / "proc/self/uid_map");
  uint64_t inside = 0;
  uint64_t outside = 0;
  uint64_t n_ids = 0;
  if (!(file >> inside >> outside >> n_ids)) return true;  // a kernel without such namespaces
  return inside == 0 && outside == 0 && n_ids == std::numeric_limits<uint32_t>::max();
}

bool may_exceed_limit(const fs::path& root) {
  const auto capabilities = read_labelled(root / "proc/self/status", "CapEff:", 16).value_or(0);
  return (capabilities >> CAP_IPC_LOCK & 1) != 0 && is_in_first_user_namespace(root);
}

std::string limit_text(uint64_t limit) {
  return limit == kNoMemlockLimit ? "any amount" : format_bytes(limit);
}

}  // namespace

uint64_t memlock_limit(const fs::path& root) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      may_exceed_limit(root)) {
    return kNoMemlockLimit;
  }
  return limit.rlim_cur;
}

uint64_t locked_memory_bytes(const fs::path& root) {
  return read_labelled(root / "proc/self/status", "VmLck:").value_or(0) * kKiB;
}

Result<LockedRange> LockedRange::lock(std::span<std::byte> bytes) {
  if (bytes.empty()) return LockedRange({});
  const auto os_page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  PENSTOCK_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % os_page == 0,
                 "a locked range begins at an OS page");
  const uint64_t already = locked_memory_bytes();
  if (lock_pages(bytes) == 0) return LockedRange(bytes);
  const int code = errno;
  unlock_pages(bytes);  // the kernel may have got halfway
  const uint64_t limit = memlock_limit();
  Error error =
      Error::from_errno(code, "lock", fmt::format("{} of memory", format_bytes(bytes.size())));
  error.kind = ErrorKind::kExhausted;
  error.message += fmt::format("; this process may lock {} and had locked {}", limit_text(limit),
                               format_bytes(already));
  if (limit != kNoMemlockLimit) {
    error.hint =
        "raise the limit: `ulimit -l unlimited` in the shell that starts penstock, "
        "LimitMEMLOCK=infinity in its systemd unit, or memlock in /etc/security/limits.conf";
  }
  return std::unexpected(std::move(error));
}

LockedRange::~LockedRange() {
  if (!bytes_.empty()) unlock_pages(bytes_);
}

}  // namespace penstock
