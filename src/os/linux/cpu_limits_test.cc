#include "os/cpu_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "os/fake_root_test.h"

namespace penstock {
namespace {

double quota(const FakeRoot& root) { return cgroup_cpu_quota(root.path()); }

constexpr const char* kV2Mount =
    "25 30 0:22 / /proc rw shared:12 - proc proc rw\n"
    "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kV1Mounts =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:3 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";

TEST(CgroupQuota, NoFilesNoLimit) { EXPECT_TRUE(std::isinf(quota(FakeRoot()))); }

TEST(CgroupQuota, V2ReadsTheOwnGroupAndItsParents) {
  const FakeRoot root;
  root.write("proc/self/mountinfo", kV2Mount);
  root.write("proc/self/cgroup", "0::/system.slice/penstock.service\n");
  root.write("sys/fs/cgroup/system.slice/penstock.service/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(quota(root)));
  root.write("sys/fs/cgroup/system.slice/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(root), 3.5);
  root.write("sys/fs/cgroup/system.slice/penstock.service/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(root), 0.5);
}

TEST(CgroupQuota, V2InsideANamespaceStandsAtTheMount) {
  const FakeRoot root;
  root.write("proc/self/mountinfo", kV2Mount);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(root), 2.0);
}

TEST(CgroupQuota, V1ReadsTheCpuControllerOnly) {
  const FakeRoot root;
  root.write("proc/self/mountinfo", kV1Mounts);
  root.write("proc/self/cgroup", "5:cpuset:/other\n4:cpu,cpuacct:/jobs/7\n0::/\n");
  root.write("sys/fs/cgroup/cpuset/other/cpu.cfs_quota_us", "100000\n");
  root.write("sys/fs/cgroup/cpuset/other/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(quota(root)));
  root.write("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(quota(root)));
  root.write("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(quota(root), 2.5);
}

// Docker on v1: /proc/self/cgroup names the host's path, of which the mount shows only the end.
TEST(CgroupQuota, V1InAContainerStandsAtTheMount) {
  const FakeRoot root;
  root.write("proc/self/mountinfo",
             "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu rw master:3 - cgroup cgroup rw,cpu\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
  root.write("proc/self/cgroup", "4:cpu:/docker/abc\n");
  EXPECT_EQ(quota(root), 3.0);
  root.write("proc/self/cgroup", "4:cpu:/elsewhere\n");
  EXPECT_EQ(quota(root), 3.0);
}

TEST(CgroupQuota, BrokenFilesLimitNothing) {
  const FakeRoot root;
  root.write("proc/self/mountinfo", std::string("1 2 3\n- - -\n") + kV2Mount);
  root.write("proc/self/cgroup", "nonsense\n0:\n0::/a\n");
  root.write("sys/fs/cgroup/a/cpu.max", "12\n");
  EXPECT_TRUE(std::isinf(quota(root)));
  root.write("sys/fs/cgroup/a/cpu.max", "12 0\n");
  EXPECT_TRUE(std::isinf(quota(root)));
}

TEST(AffinityCpus, SeeAMaskOfOneCpu) {
  const std::vector<int> before = affinity_cpus();
  ASSERT_FALSE(before.empty());
  EXPECT_TRUE(std::ranges::is_sorted(before));
  std::vector<int> inside;
  std::thread([&] {
    EXPECT_TRUE(pin_this_thread(before.back()));
    inside = affinity_cpus();
  }).join();
  EXPECT_EQ(inside, std::vector{before.back()});
  EXPECT_EQ(affinity_cpus(), before);
}

TEST(PinThisThread, RefusesACpuThatIsNotThere) {
  EXPECT_FALSE(pin_this_thread(-1));
  EXPECT_FALSE(pin_this_thread(1 << 16));
}

}  // namespace
}  // namespace penstock
