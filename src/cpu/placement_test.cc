#include "cpu/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Topology described(const std::string& description, double quota = 1e9) {
  Topology topology = read_topology(description).value();
  topology.quota = quota;
  return topology;
}

// 8 fast cores of two hardware threads (CPUs 0 to 15, in pairs), 16 slow ones (16 to 31).
Topology hybrid() {
  Topology topology;
  for (int id = 0; id < 32; ++id) {
    const bool is_fast = id < 16;
    topology.cpus.push_back(
        {.id = id, .core = is_fast ? id / 2 : id - 8, .node = 0, .speed = is_fast ? 1 : 0});
  }
  return topology;
}

TEST(PlaceWorkers, OneOnEachCoreUnlessMoreAreAskedFor) {
  const Topology topology = described("package:1 core:4 pu:2");
  EXPECT_THAT(place_workers(topology, 0).cpus, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(place_workers(topology, 3).cpus, ElementsAre(0, 2, 4));
  EXPECT_THAT(place_workers(topology, 6).cpus, ElementsAre(0, 2, 4, 6, 1, 3));
  EXPECT_THAT(place_workers(topology, 99).cpus, ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_EQ(place_workers(topology, 3).n_usable, 8);
}

TEST(PlaceWorkers, FillOnePackageBeforeTheNextAndUseTheMemoryOfBoth) {
  const Topology topology = described("package:2 numa:1 core:4 pu:2");
  const Placement all = place_workers(topology, 0);
  EXPECT_THAT(all.cpus, ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_THAT(all.nodes, ElementsAre(0, 1));

  const Placement few = place_workers(topology, 3);
  EXPECT_THAT(few.cpus, ElementsAre(0, 2, 4));
  EXPECT_THAT(few.nodes, ElementsAre(0));  // not where the loading thread happens to run
}

TEST(PlaceWorkers, TakeTurnsBetweenTheNodesOfAPackage) {
  const Topology topology = described("package:2 numa:2 core:2 pu:1");
  const Placement few = place_workers(topology, 3);
  EXPECT_THAT(few.cpus, ElementsAre(0, 2, 1));
  EXPECT_THAT(few.nodes, ElementsAre(0, 1));
  EXPECT_THAT(place_workers(topology, 0).cpus, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(place_workers(topology, 0).nodes, ElementsAre(0, 1, 2, 3));
}

TEST(PlaceWorkers, OneNodeLeavesNothingToChoose) {
  EXPECT_THAT(place_workers(described("package:2 core:2 pu:1"), 0).nodes, IsEmpty());
}

TEST(PlaceWorkers, FastCoresThenSlowOnesThenSiblings) {
  std::vector<int> expected;
  for (int id = 0; id < 16; id += 2) expected.push_back(id);
  EXPECT_EQ(place_workers(hybrid(), 8).cpus, expected);
  for (int id = 16; id < 32; ++id) expected.push_back(id);
  EXPECT_EQ(place_workers(hybrid(), 0).cpus, expected);
  for (int id = 1; id < 16; id += 2) expected.push_back(id);
  EXPECT_EQ(place_workers(hybrid(), 32).cpus, expected);
}

TEST(PlaceWorkers, AMaskMayLeaveSecondSiblingsOnly) {
  const Topology topology =
      within(described("package:2 numa:1 core:4 pu:2"), std::array{1, 3, 9, 10, 11, 13});
  // The second package has three cores left of four, the first two.
  EXPECT_THAT(place_workers(topology, 0).cpus, ElementsAre(9, 10, 13, 1, 3));
  EXPECT_THAT(place_workers(topology, 6).cpus, ElementsAre(9, 10, 13, 1, 3, 11));
  EXPECT_THAT(place_workers(topology, 2).nodes, ElementsAre(1));
}

TEST(PlaceWorkers, NeverMoreThanTheQuotaPaysFor) {
  const auto n_cpus = [](double quota, int n_threads) {
    return place_workers(described("core:8 pu:2", quota), n_threads).cpus.size();
  };
  EXPECT_EQ(n_cpus(1.5, 0), 1u);
  EXPECT_EQ(n_cpus(0.2, 0), 1u);
  EXPECT_EQ(n_cpus(3.99, 0), 3u);
  EXPECT_EQ(n_cpus(4.0, 2), 2u);
  EXPECT_EQ(n_cpus(4.0, 6), 4u);
  EXPECT_EQ(n_cpus(12.0, 0), 8u);
  EXPECT_EQ(n_cpus(12.0, 16), 12u);
  EXPECT_EQ(n_cpus(std::numeric_limits<double>::infinity(), 16), 16u);
}

TEST(PlaceWorkers, OneCpuOrNone) {
  const Placement one = place_workers(described("core:1 pu:1"), 4);
  EXPECT_THAT(one.cpus, ElementsAre(0));
  EXPECT_THAT(one.nodes, IsEmpty());
  EXPECT_THAT(place_workers({}, 0).cpus, IsEmpty());
}

TEST(PlaceWorkers, ANodeWithoutMemoryIsNoPlaceForWeights) {
  const Topology topology = {.cpus = {{.id = 0, .core = 0, .node = 0},
                                      {.id = 1, .core = 1, .node = kNoNode},
                                      {.id = 2, .core = 2, .node = 2}}};
  EXPECT_THAT(place_workers(topology, 0).nodes, ElementsAre(0, 2));
  const Topology two = {.cpus = {topology.cpus[0], topology.cpus[1]}};
  EXPECT_THAT(place_workers(two, 0).nodes, IsEmpty());
}

}  // namespace
}  // namespace penstock
