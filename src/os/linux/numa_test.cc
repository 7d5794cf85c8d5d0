#include "os/numa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "base/units.h"
#include "os/memory.h"

namespace penstock {
namespace {

struct Policy {
  int mode = -1;
  unsigned long first_nodes = 0;  // a bit each
};

// What the kernel says it will do at an address.
Policy policy_at(std::byte* address) {
  Policy policy;
  std::array<unsigned long, 1024 / 64> mask = {};
  if (::syscall(SYS_get_mempolicy, &policy.mode, mask.data(), 1024, address, MPOL_F_ADDR) != 0) {
    return {};
  }
  policy.first_nodes = mask[0];
  return policy;
}

class PlaceOnNodes : public testing::Test {
 protected:
  void SetUp() override {
    memory_ = AnonymousMemory::reserve(4 * kMiB, OsPages::kHuge).value();
    if (policy_at(memory_.bytes().data()).mode < 0) {
      GTEST_SKIP() << "this container forbids NUMA policies";
    }
  }

  AnonymousMemory memory_;
};

TEST_F(PlaceOnNodes, OneIsPreferredAndStaysSoWhenTouched) {
  ASSERT_TRUE(place_on_nodes(memory_.bytes(), std::array{0}));
  memory_.bytes().back() = std::byte{1};
  for (std::byte* const address : {&memory_.bytes().front(), &memory_.bytes().back()}) {
    EXPECT_EQ(policy_at(address).mode, MPOL_PREFERRED);
    EXPECT_EQ(policy_at(address).first_nodes, 1u);
  }
}

// The kernel leaves out nodes that the machine lacks, so one with node 0 alone shows the mode too.
TEST_F(PlaceOnNodes, SeveralTakeTurns) {
  ASSERT_TRUE(place_on_nodes(memory_.bytes(), std::array{0, 1}));
  EXPECT_EQ(policy_at(memory_.bytes().data()).mode, MPOL_INTERLEAVE);
  EXPECT_EQ(policy_at(memory_.bytes().data()).first_nodes & 1u, 1u);
}

TEST_F(PlaceOnNodes, OnlyThatRangeAndOnlyWhenAsked) {
  ASSERT_TRUE(place_on_nodes(memory_.bytes(), {}));
  ASSERT_TRUE(place_on_nodes({}, std::array{0}));
  EXPECT_EQ(policy_at(memory_.bytes().data()).mode, MPOL_DEFAULT);
  ASSERT_TRUE(place_on_nodes(memory_.bytes().first(2 * kMiB), std::array{0}));
  EXPECT_EQ(policy_at(&memory_.bytes().front()).mode, MPOL_PREFERRED);
  EXPECT_EQ(policy_at(&memory_.bytes().back()).mode, MPOL_DEFAULT);
}

TEST_F(PlaceOnNodes, ARefusalSaysWhy) {
  const auto placed = place_on_nodes(memory_.bytes(), std::array{100'000});
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().message, "cannot place memory on NUMA nodes: Invalid argument");
}

}  // namespace
}  // namespace penstock
