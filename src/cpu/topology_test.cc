#include "cpu/topology.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "os/cpu_limits.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::Field;

template <class T>
std::vector<T> each(const Topology& topology, T LogicalCpu::* field) {
  std::vector<T> values;
  for (const LogicalCpu& cpu : topology.cpus) values.push_back(cpu.*field);
  return values;
}

// A machine as hwloc writes it down: some fast cores of two hardware threads,
// numbered in pairs, and some slow ones of one, as Intel's hybrid processors have them.
std::string hybrid_xml(int n_fast, int n_slow) {
  const auto sets = [](uint64_t cpus) {
    return fmt::format(R"(cpuset="{0:#x}" complete_cpuset="{0:#x}" nodeset="0x1" )"
                       R"(complete_nodeset="0x1")",
                       cpus);
  };
  uint64_t fast_cpus = 0;
  uint64_t slow_cpus = 0;
  std::string cores;
  for (int core = 0, cpu = 0; core < n_fast + n_slow; ++core) {
    const int n_threads = core < n_fast ? 2 : 1;
    uint64_t of_core = 0;
    std::string threads;
    for (int i = 0; i < n_threads; ++i, ++cpu) {
      of_core |= uint64_t{1} << cpu;
      threads += fmt::format(R"(<object type="PU" os_index="{}" {} gp_index="{}"/>)", cpu,
                             sets(uint64_t{1} << cpu), 1000 + cpu);
    }
    (core < n_fast ? fast_cpus : slow_cpus) |= of_core;
    cores += fmt::format(R"(<object type="Core" os_index="{}" {} gp_index="{}">{}</object>)", core,
                         sets(of_core), 100 + core, threads);
  }
  const uint64_t all_cpus = fast_cpus | slow_cpus;
  return fmt::format(R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" os_index="0" {0} allowed_cpuset="{1:#x}" allowed_nodeset="0x1" gp_index="1">
<object type="NUMANode" os_index="0" {0} gp_index="2" local_memory="1073741824"/>
{2}</object>
<cpukind cpuset="{3:#x}"><info name="CoreType" value="IntelAtom"/></cpukind>
<cpukind cpuset="{4:#x}"><info name="CoreType" value="IntelCore"/></cpukind>
</topology>
)",
                     sets(all_cpus), all_cpus, cores, slow_cpus, fast_cpus);
}

TEST(ReadTopology, SeesPackagesCoresAndSiblings) {
  const Topology topology = read_topology("package:2 core:2 pu:2").value();
  EXPECT_THAT(each(topology, &LogicalCpu::id), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(each(topology, &LogicalCpu::core), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(each(topology, &LogicalCpu::package), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(each(topology, &LogicalCpu::speed), testing::Each(0));
  EXPECT_THAT(each(topology, &LogicalCpu::node), testing::Each(0));
}

// Linux numbers all first siblings before all second ones.
TEST(ReadTopology, KeepsTheOsNumbers) {
  const Topology topology = read_topology("package:1 core:4 pu:2(indexes=0,4,1,5,2,6,3,7)").value();
  EXPECT_THAT(each(topology, &LogicalCpu::id), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(each(topology, &LogicalCpu::core), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
}

TEST(ReadTopology, SeesNumaNodesInsideAndAroundPackages) {
  EXPECT_THAT(each(*read_topology("package:2 numa:2 core:2 pu:1"), &LogicalCpu::node),
              ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(each(*read_topology("numa:2 core:2 pu:1"), &LogicalCpu::package),
              ElementsAre(0, 0, 0, 0));
}

TEST(ReadTopology, ANodeWithoutMemoryIsNone) {
  EXPECT_THAT(each(*read_topology("[numa(memory=0)] core:2 pu:1"), &LogicalCpu::node),
              ElementsAre(kNoNode, kNoNode));
  // Ordinary and high-bandwidth memory of the same cores: the ordinary.
  EXPECT_THAT(each(*read_topology("package:2 [numa(memory=8GB)] [numa(memory=1GB)] core:1 pu:1"),
                   &LogicalCpu::node),
              ElementsAre(0, 2));
}

TEST(ReadTopology, RanksTheKindsOfAHybridMachine) {
  const auto topology = read_topology(hybrid_xml(/*n_fast=*/2, /*n_slow=*/3));
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_THAT(each(*topology, &LogicalCpu::core), ElementsAre(0, 0, 1, 1, 2, 3, 4));
  EXPECT_THAT(each(*topology, &LogicalCpu::speed), ElementsAre(1, 1, 1, 1, 0, 0, 0));
}

TEST(ReadTopology, RefusesWhatIsNoDescription) {
  EXPECT_FALSE(read_topology("seventeen cores"));
  EXPECT_FALSE(read_topology("<topology"));
}

// Against what the kernel says of this machine in its own files.
TEST(ReadTopology, OfThisMachineHasEveryCpuOfTheMask) {
  const Topology topology = read_topology().value();
  EXPECT_THAT(each(topology, &LogicalCpu::id), testing::IsSupersetOf(affinity_cpus()));
}

TEST(Within, KeepsTheMaskAndTakesUnknownCpusForCores) {
  const Topology machine = read_topology("core:2 pu:2").value();
  const Topology usable = within(machine, std::array{1, 3, 9});
  EXPECT_THAT(each(usable, &LogicalCpu::id), ElementsAre(1, 3, 9));
  EXPECT_THAT(each(usable, &LogicalCpu::core), ElementsAre(0, 1, 2));
  EXPECT_THAT(each(usable, &LogicalCpu::node), ElementsAre(0, 0, kNoNode));
  EXPECT_EQ(within(machine, {}).cpus, machine.cpus);
}

TEST(UsableTopology, IsTheCallingThreadsMask) {
  const std::vector<int> mask = affinity_cpus();
  std::thread([&] {
    ASSERT_TRUE(pin_this_thread(mask.back()));
    const Topology usable = usable_topology();
    EXPECT_THAT(usable.cpus, ElementsAre(Field(&LogicalCpu::id, mask.back())));
    EXPECT_GT(usable.quota, 0);
    EXPECT_EQ(usable.note, "");
  }).join();
}

}  // namespace
}  // namespace penstock
