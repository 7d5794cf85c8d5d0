#include "os/process_info.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/units.h"
#include "os/fake_root_test.h"

namespace penstock {
namespace {

TEST(ProcessInfo, NameParentAndRam) {
  const FakeRoot root;
  root.write("proc/4711/comm", "my server (old)\n");
  root.write("proc/4711/status", "Name:\tmy server (old)\nPPid:\t812\nVmRSS:\t 1048576 kB\n");
  const ProcessInfo expected = {
      .pid = 4711, .name = "my server (old)", .parent = 812, .rss_bytes = kGiB};
  EXPECT_EQ(process_info(4711, root.path()), expected);
  EXPECT_EQ(process_info(4712, root.path()), std::nullopt);
}

TEST(ProcessInfo, ThisProcess) {
  const auto info = process_info(::getpid());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->parent, ::getppid());
  EXPECT_GT(info->rss_bytes, 0u);
}

}  // namespace
}  // namespace penstock
