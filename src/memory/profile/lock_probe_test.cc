#include "memory/profile/lock_probe.h"

#include <gtest/gtest.h>

#include <string>

#include "base/units.h"
#include "os/linux/memlock_limit_test.h"
#include "os/locked_memory.h"

namespace penstock {
namespace {

TEST(LockProbe, StopsWhereItIsTold) {
  const LockProbe probe = probe_locks(kMiB);
  EXPECT_EQ(probe.was_refused, probe.locked_bytes < kMiB);
  EXPECT_LE(probe.locked_bytes, kMiB);
  EXPECT_EQ(locked_memory_bytes(), 0u);
}

TEST(LockProbe, FindsTheLimitToTheLastPiece) {
  constexpr uint64_t kLimit = 5 * kMiB + 64 * kKiB;
  const std::string said = said_under_limit(kLimit, [] {
    const LockProbe probe = probe_locks(64 * kMiB);
    return fmt::format("{} {} {}", probe.locked_bytes, probe.was_refused, locked_memory_bytes());
  });
  EXPECT_EQ(said, fmt::format("{} true 0", kLimit));
}

TEST(LockProbe, ALimitOfNothing) {
  const std::string said = said_under_limit(0, [] {
    const LockProbe probe = probe_locks(kMiB);
    return fmt::format("{} {}", probe.locked_bytes, probe.was_refused);
  });
  EXPECT_EQ(said, "0 true");
}

}  // namespace
}  // namespace penstock
