#include "os/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>

#include "base/units.h"
#include "os/fake_root_test.h"

namespace penstock {
namespace {

TEST(AnonymousMemory, IsAlignedZeroAndWritableToItsLastByte) {
  const auto memory = AnonymousMemory::reserve(3 * kMiB + 5, OsPages::kHuge);
  ASSERT_TRUE(memory) << memory.error().message;
  const auto bytes = memory->bytes();
  EXPECT_EQ(bytes.size(), 3 * kMiB + 5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % (2 * kMiB), 0u);
  EXPECT_EQ(bytes.back(), std::byte{0});
  bytes.back() = std::byte{7};
}

TEST(AnonymousMemory, AbsurdSizesAreAnErrorWithTheSize) {
  const auto memory = AnonymousMemory::reserve(size_t{1} << 60, OsPages::kNormal);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().kind, ErrorKind::kExhausted);
}

bool is_resident(std::byte* address) {
  unsigned char there = 0;
  const auto in_page = reinterpret_cast<uintptr_t>(address) % 4096;
  EXPECT_EQ(::mincore(address - in_page, 1, &there), 0);
  return (there & 1) != 0;
}

TEST(AnonymousMemory, CommittedPagesAreThereAndKeepTheirContent) {
  const auto memory = AnonymousMemory::reserve(8 * kMiB, OsPages::kSmall);
  ASSERT_TRUE(memory) << memory.error().message;
  const auto bytes = memory->bytes();
  bytes[3 * kMiB] = std::byte{7};
  memory->commit(3 * kMiB, kMiB);
  if (!is_resident(&bytes[4 * kMiB - 4096])) GTEST_SKIP() << "this kernel does not commit early";
  EXPECT_EQ(bytes[3 * kMiB], std::byte{7});
  EXPECT_EQ(bytes[4 * kMiB - 1], std::byte{0});
  EXPECT_FALSE(is_resident(&bytes[2 * kMiB]));
  EXPECT_FALSE(is_resident(&bytes[4 * kMiB]));
  memory->commit(8 * kMiB - 1, kMiB);
  EXPECT_TRUE(is_resident(&bytes[8 * kMiB - 1]));
}

constexpr const char* kMeminfo = "MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n";
constexpr const char* kV2Mount =
    "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kV1Mounts =
    "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST(AvailableMemory, WithoutCgroupsItIsTheKernelsEstimate) {
  const FakeRoot root;
  EXPECT_EQ(available_memory_bytes(root.path()), 0u);
  root.write("proc/meminfo", kMeminfo);
  EXPECT_EQ(available_memory_bytes(root.path()), 4 * kGiB);
}

TEST(CgroupMemoryLimit, IsTheLeastOfTheGroupsBelowTheRam) {
  const FakeRoot root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/mountinfo", kV2Mount);
  root.write("proc/self/cgroup", "0::/user.slice/penstock.scope\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/user.slice/penstock.scope/memory.max", "max\n");
  root.write("sys/fs/cgroup/user.slice/memory.max", "9223372036854771712\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/user.slice/memory.max", "2147483648\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), 2 * kGiB);
  root.write("sys/fs/cgroup/user.slice/penstock.scope/memory.max", "1048576\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), kMiB);
}

TEST(AvailableMemory, EveryV2GroupAroundTheProcessBindsIt) {
  const FakeRoot root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/mountinfo", kV2Mount);
  root.write("proc/self/cgroup", "0::/user.slice/penstock.scope\n");
  root.write("sys/fs/cgroup/user.slice/penstock.scope/memory.max", "max\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 4 * kGiB);
  root.write("sys/fs/cgroup/user.slice/memory.max", "2147483648\n");
  root.write("sys/fs/cgroup/user.slice/memory.current", "1610612736\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 512 * kMiB);
  root.write("sys/fs/cgroup/user.slice/memory.stat", "anon 536870912\ninactive_file 1073741824\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 1536 * kMiB);
  root.write("sys/fs/cgroup/user.slice/penstock.scope/memory.max", "1048576\n");
  EXPECT_EQ(available_memory_bytes(root.path()), kMiB);
}

TEST(AvailableMemory, V1AsksTheMemoryControllersGroups) {
  const FakeRoot root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/mountinfo", kV1Mounts);
  root.write("proc/self/cgroup", "4:memory:/jobs/7\n1:cpu:/other\n");
  // How the kernel writes "no limit".
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
  root.write("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "3221225472\n");
  root.write("sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "2147483648\n");
  root.write("sys/fs/cgroup/memory/jobs/7/memory.stat", "total_inactive_file 1073741824\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 2 * kGiB);
}

TEST(AvailableMemory, AGroupOverItsLimitLeavesNothing) {
  const FakeRoot root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/mountinfo", kV2Mount);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "1000\n");
  root.write("sys/fs/cgroup/memory.current", "5000\n");
  root.write("sys/fs/cgroup/memory.stat", "inactive_file nonsense\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 0u);
}

TEST(TotalMemory, IsWhatTheKernelManages) {
  const FakeRoot root;
  EXPECT_EQ(total_memory_bytes(root.path()), 0u);
  root.write("proc/meminfo", kMeminfo);
  EXPECT_EQ(total_memory_bytes(root.path()), 8 * kGiB);
}

TEST(AvailableMemory, IsSomethingBelowAPetabyte) {
  EXPECT_GT(available_memory_bytes(), kMiB);
  EXPECT_LT(available_memory_bytes(), uint64_t{1} << 50);
}

}  // namespace
}  // namespace penstock
