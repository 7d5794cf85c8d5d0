// Locking under RLIMIT_MEMLOCK, which root is held to only without CAP_IPC_LOCK.
#include "os/locked_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "base/units.h"
#include "os/fake_root_test.h"
#include "os/linux/memlock_limit_test.h"
#include "os/memory.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(LockedMemory, TheKernelHoldsItToTheLimit) {
  const std::string said = said_under_limit(kMiB, []() -> std::string {
    if (memlock_limit() != kMiB) return fmt::format("limit {}", memlock_limit());
    const auto memory = AnonymousMemory::reserve(4 * kMiB, OsPages::kSmall).value();
    const auto bytes = memory.bytes();
    const auto half = LockedRange::lock(bytes.first(512 * kKiB));
    if (!half) return half.error().text();
    const auto too_much = LockedRange::lock(bytes.subspan(kMiB, 2 * kMiB));
    if (too_much) return "locked more than the limit";
    if (locked_memory_bytes() != 512 * kKiB) return "a refused range stays locked in part";
    if (!LockedRange::lock(bytes.subspan(kMiB, 512 * kKiB))) return "refused what the limit allows";
    return too_much.error().text();
  });
  EXPECT_EQ(said,
            "cannot lock 2.0 MiB of memory: Cannot allocate memory; this process may lock 1.0 MiB "
            "and had locked 512.0 KiB (raise the limit: `ulimit -l unlimited` in the shell that "
            "starts penstock, LimitMEMLOCK=infinity in its systemd unit, or memlock in "
            "/etc/security/limits.conf)");
}

TEST(LockedMemory, ALimitOfNothingIsAnErrorToo) {
  const std::string said = said_under_limit(0, []() -> std::string {
    const auto memory = AnonymousMemory::reserve(kMiB, OsPages::kSmall).value();
    const auto range = LockedRange::lock(memory.bytes());
    return range ? "locked" : range.error().message;
  });
  EXPECT_EQ(said,
            "cannot lock 1.0 MiB of memory: Operation not permitted; this process may lock 0 B and "
            "had locked 0 B");
}

// A range with a hole is refused halfway: its beginning must not stay locked.
TEST(LockedMemory, WhatIsRefusedHalfwayIsNotLockedAtAll) {
  const auto os_page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory =
      ::mmap(nullptr, 2 * os_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const begin = static_cast<std::byte*>(memory);
  ::munmap(begin + os_page, os_page);
  const uint64_t before = locked_memory_bytes();
  const auto range = LockedRange::lock({begin, 2 * os_page});
  EXPECT_EQ(locked_memory_bytes(), before);
  ::munmap(begin, os_page);
  ASSERT_FALSE(range);
  EXPECT_EQ(range.error().kind, ErrorKind::kExhausted);
  EXPECT_THAT(range.error().message, HasSubstr("cannot lock 8.0 KiB of memory"));
}

// The right counts where it was not given by a container's own ids.
TEST(LockedMemory, ReadsRightsAsTheKernelDoes) {
  const std::string said = said_by_child([]() -> std::string {
    if (!set_memlock_limit(kMiB)) return "cannot lower the limit";
    const auto limit_with = [](const std::string& capabilities, const std::string& uid_map) {
      const FakeRoot root;
      root.write("proc/self/status",
                 "Name:\tpenstock\nVmLck:\t     640 kB\nCapEff:\t" + capabilities + "\n");
      if (!uid_map.empty()) root.write("proc/self/uid_map", uid_map);
      return memlock_limit(root.path());
    };
    const std::string everyone = "         0          0 4294967295\n";
    if (limit_with("000001ffffffffff", everyone) != kNoMemlockLimit) return "root";
    if (limit_with("0000000000004000", everyone) != kNoMemlockLimit) return "CAP_IPC_LOCK alone";
    if (limit_with("0000000000004000", "") != kNoMemlockLimit) return "no namespaces";
    if (limit_with("000001ffffffbfff", everyone) != kMiB) return "all but CAP_IPC_LOCK";
    if (limit_with("0000000000000000", everyone) != kMiB) return "a user";
    if (limit_with("000001ffffffffff", "0 1000 1\n") != kMiB) return "root of a container";
    if (limit_with("000001ffffffffff", "0 100000 65536\n") != kMiB) return "root of another";
    return "right";
  });
  EXPECT_EQ(said, "right");
  const FakeRoot root;
  root.write("proc/self/status", "Name:\tpenstock\nVmLck:\t     640 kB\n");
  EXPECT_EQ(locked_memory_bytes(root.path()), 640 * kKiB);
  EXPECT_EQ(locked_memory_bytes(root.path() / "none"), 0u);
}

}  // namespace
}  // namespace penstock
