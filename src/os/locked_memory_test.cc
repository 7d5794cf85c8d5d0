#include "os/locked_memory.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/units.h"
#include "os/memory.h"

namespace penstock {
namespace {

// Less than any system's limit.
constexpr size_t kBytes = 32 * kKiB;

TEST(LockedMemory, IsLockedAsLongAsTheRangeLives) {
  const auto memory = AnonymousMemory::reserve(2 * kBytes, OsPages::kSmall).value();
  const uint64_t before = locked_memory_bytes();
  {
    auto first = LockedRange::lock(memory.bytes().first(kBytes));
    ASSERT_TRUE(first) << first.error().text();
    EXPECT_EQ(first->bytes().data(), memory.bytes().data());
    EXPECT_EQ(locked_memory_bytes(), before + kBytes);
    auto second = LockedRange::lock(memory.bytes().subspan(kBytes));
    ASSERT_TRUE(second) << second.error().text();
    EXPECT_EQ(locked_memory_bytes(), before + 2 * kBytes);

    LockedRange moved = *std::move(first);
    EXPECT_EQ(locked_memory_bytes(), before + 2 * kBytes);
    moved = *std::move(second);
    EXPECT_EQ(moved.bytes().data(), memory.bytes().data() + kBytes);
  }
  EXPECT_EQ(locked_memory_bytes(), before);
}

TEST(LockedMemory, NothingIsLockedOfNothing) {
  const uint64_t before = locked_memory_bytes();
  const auto range = LockedRange::lock({});
  ASSERT_TRUE(range);
  EXPECT_EQ(locked_memory_bytes(), before);
}

TEST(LockedMemory, TheLimitHoldsWhatIsLocked) { EXPECT_GE(memlock_limit(), locked_memory_bytes()); }

TEST(LockedMemoryDeathTest, ARangeBeginsAtAnOsPage) {
  const auto memory = AnonymousMemory::reserve(kBytes, OsPages::kSmall).value();
  EXPECT_DEATH((void)LockedRange::lock(memory.bytes().subspan(1)), "begins at an OS page");
}

}  // namespace
}  // namespace penstock
