// Runs part of a test under RLIMIT_MEMLOCK, which root is held to only without CAP_IPC_LOCK.
#pragma once

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "os/child_process_test.h"

namespace penstock {

inline bool set_memlock_limit(rlim_t bytes) {
  rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  limit.rlim_cur = bytes;
  return ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

// Gives up the right to lock beyond the limit, if the process has it. Only for a child.
inline bool drop_right_to_exceed_limit() {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets = {};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return false;
  sets[0].effective &= ~(1U << CAP_IPC_LOCK);
  sets[0].permitted &= ~(1U << CAP_IPC_LOCK);
  return ::syscall(SYS_capset, &header, sets.data()) == 0;
}

// What `body` says in a child held to `limit`.
inline std::string said_under_limit(rlim_t limit, const std::function<std::string()>& body) {
  return said_by_child([&]() -> std::string {
    if (!set_memlock_limit(limit)) return "cannot lower the limit";
    if (!drop_right_to_exceed_limit()) return "cannot drop CAP_IPC_LOCK";
    return body();
  });
}

}  // namespace penstock
