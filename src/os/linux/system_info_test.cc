#include "os/system_info.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "os/fake_root_test.h"

namespace penstock {
namespace {

TEST(SystemInfo, WhatIsNotThereIsUnknown) {
  const FakeRoot root;
  EXPECT_EQ(kernel_release(root.path()), "unknown");
  EXPECT_FALSE(is_wsl2(root.path()));
  EXPECT_EQ(swap_bytes(root.path()), 0u);
  EXPECT_EQ(load_average(root.path()), 0);
  EXPECT_EQ(huge_pages(root.path()), std::nullopt);
  EXPECT_EQ(largest_cache_bytes(root.path()), 0u);
}

TEST(SystemInfo, WslIsKnownByItsKernel) {
  const auto is = [](const char* version) {
    const FakeRoot root;
    root.write("proc/version", version);
    return is_wsl2(root.path());
  };
  EXPECT_TRUE(is("Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x) #1 SMP\n"));
  EXPECT_TRUE(is("Linux version 6.6.36-mine-WSL2 (me@x) #1 SMP\n"));
  EXPECT_FALSE(is("Linux version 4.4.0-19041-Microsoft (x@microsoft.com) #1\n"));  // WSL1
  EXPECT_FALSE(is("Linux version 6.1.0-38-amd64 (debian-kernel@lists.debian.org) #1 SMP\n"));
}

TEST(SystemInfo, ReadsKernelSwapLoadAndCaches) {
  const FakeRoot root;
  root.write("proc/sys/kernel/osrelease", "6.1.0-38-amd64\n");
  root.write("proc/meminfo", "MemTotal: 8388608 kB\nSwapTotal:  2097152 kB\n");
  root.write("proc/loadavg", "1.25 0.80 0.40 2/310 4711\n");
  root.write("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n");
  root.write("sys/devices/system/cpu/cpu0/cache/index3/size", "32M\n");
  EXPECT_EQ(kernel_release(root.path()), "6.1.0-38-amd64");
  EXPECT_EQ(swap_bytes(root.path()), 2 * kGiB);
  EXPECT_EQ(load_average(root.path()), 1.25);
  EXPECT_EQ(largest_cache_bytes(root.path()), 32 * kMiB);
}

TEST(SystemInfo, HugePagesAreWhatIsInBrackets) {
  const auto policy = [](const char* text) {
    const FakeRoot root;
    root.write("sys/kernel/mm/transparent_hugepage/enabled", text);
    return huge_pages(root.path());
  };
  EXPECT_EQ(policy("[always] madvise never\n"), HugePages::kAlways);
  EXPECT_EQ(policy("always [madvise] never\n"), HugePages::kWhoAsks);
  EXPECT_EQ(policy("always madvise [never]\n"), HugePages::kNever);
  EXPECT_EQ(policy("sometimes\n"), std::nullopt);
}

TEST(SystemInfo, ThisMachineAnswers) { EXPECT_NE(kernel_release(), "unknown"); }

}  // namespace
}  // namespace penstock
