#include "os/working_set.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "os/fake_working_set_test.h"

namespace penstock {
namespace {

// Addresses for a fake that never touches them.
std::span<std::byte> stretch(uintptr_t address, size_t bytes) {
  return {reinterpret_cast<std::byte*>(address), bytes};  // NOLINT(performance-no-int-to-ptr)
}
const std::span<std::byte> kFirst = stretch(16 * kMiB, 8 * kMiB);
const std::span<std::byte> kSecond = stretch(32 * kMiB, 4 * kMiB);

TEST(WorkingSet, LocksFarMoreThanTheFirstMinimum) {
  FakeWorkingSet fake;
  const WorkingSetLimits before = fake.now;
  WorkingSet set(fake);
  ASSERT_TRUE(set.lock(kFirst));
  ASSERT_TRUE(set.lock(kSecond));
  EXPECT_EQ(set.locked_bytes(), 12 * kMiB);
  EXPECT_EQ(fake.locked_bytes(), 12 * kMiB);
  EXPECT_GE(fake.now.minimum_bytes, before.minimum_bytes + 12 * kMiB);

  set.unlock(kFirst);
  EXPECT_EQ(set.locked_bytes(), 4 * kMiB);
  set.unlock(kSecond);
  EXPECT_EQ(fake.now.minimum_bytes, before.minimum_bytes);
  EXPECT_EQ(fake.locked_bytes(), 0u);
}

TEST(WorkingSet, CountsWholeOsPages) {
  FakeWorkingSet fake;
  WorkingSet set(fake);
  ASSERT_TRUE(set.lock(stretch(16 * kMiB, 4097)));
  EXPECT_EQ(set.locked_bytes(), 8 * kKiB);
}

TEST(WorkingSet, NothingIsNothing) {
  FakeWorkingSet fake;
  WorkingSet set(fake);
  EXPECT_TRUE(set.lock({}));
  set.unlock({});
  EXPECT_EQ(fake.n_calls(), 0);
}

TEST(WorkingSet, SaysWhatWasLockedWhenRamEnds) {
  FakeWorkingSet fake;
  fake.ram_bytes = 10 * kMiB;
  WorkingSet set(fake);
  ASSERT_TRUE(set.lock(kFirst));
  const WorkingSetLimits before = fake.now;
  const auto refused = set.lock(kSecond);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kExhausted);
  EXPECT_NE(refused.error().message.find(format_bytes(4 * kMiB)), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("had locked " + format_bytes(8 * kMiB)), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(fake.now, before);
  EXPECT_EQ(set.locked_bytes(), 8 * kMiB);
}

// lock() makes four calls: limits, limits, set_limits, lock.
TEST(WorkingSet, EveryRefusalLeavesNothingLockedAndTheLimitsAsTheyWere) {
  constexpr int kCalls = 4;
  for (int fails_at = 0; fails_at <= kCalls; ++fails_at) {
    FakeWorkingSet fake;
    fake.fails_at = fails_at;
    const WorkingSetLimits before = fake.now;
    WorkingSet set(fake);
    const bool is_locked = set.lock(kFirst).has_value();
    EXPECT_EQ(is_locked, fails_at == kCalls) << fails_at;
    EXPECT_EQ(fake.locked_bytes(), is_locked ? kFirst.size() : 0) << fails_at;
    EXPECT_EQ(set.locked_bytes(), fake.locked_bytes()) << fails_at;
    EXPECT_EQ(fake.now == before, !is_locked) << fails_at;
  }
}

TEST(WorkingSet, WhatCannotBeUnlockedStillCounts) {
  FakeWorkingSet fake;
  WorkingSet set(fake);
  ASSERT_TRUE(set.lock(kFirst));
  fake.fails_at = fake.n_calls();
  set.unlock(kFirst);
  EXPECT_EQ(set.locked_bytes(), kFirst.size());
}

TEST(CommitRefused, NamesWantedAvailableAndLimit) {
  const Error error = commit_refused(40 * kMiB, FakeWorkingSet().commit_state());
  EXPECT_EQ(error.kind, ErrorKind::kExhausted);
  for (const uint64_t bytes : {40 * kMiB, 32 * kMiB, 96 * kMiB}) {
    EXPECT_NE(error.message.find(format_bytes(bytes)), std::string::npos) << error.message;
  }
}

}  // namespace
}  // namespace penstock
