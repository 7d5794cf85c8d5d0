#include "cpu/placement.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <set>
#include <tuple>

namespace penstock {
namespace {

// What decides when a CPU is used, most important first: the smallest comes first.
struct Rank {
  int sibling = 0;  // 0 for the first CPU of its core
  int slowness = 0;
  int package_smallness = 0;
  int package = 0;
  int turn = 0;  // of its node, among those alike in all of the above
  int node = 0;
  int id = 0;

  auto operator<=>(const Rank&) const = default;
};

std::vector<Rank> in_order_of_use(const Topology& topology) {
  std::map<int, int> n_seen_of_core;
  std::map<int, std::set<int>> cores_of_package;
  for (const LogicalCpu& cpu : topology.cpus) cores_of_package[cpu.package].insert(cpu.core);

  std::map<std::tuple<int, int, int, int>, int> n_seen_of_node;
  std::vector<Rank> ranks;
  for (const LogicalCpu& cpu : topology.cpus) {
    Rank rank = {.sibling = n_seen_of_core[cpu.core]++,
                 .slowness = -cpu.speed,
                 .package_smallness = -static_cast<int>(cores_of_package[cpu.package].size()),
                 .package = cpu.package,
                 .node = cpu.node,
                 .id = cpu.id};
    rank.turn = n_seen_of_node[{rank.sibling, rank.slowness, rank.package, rank.node}]++;
    ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace

Placement place_workers(const Topology& topology, int n_threads) {
  const std::vector<Rank> ranks = in_order_of_use(topology);
  const auto n_cpus = static_cast<int>(ranks.size());
  const auto n_cores = static_cast<int>(std::ranges::count(ranks, 0, &Rank::sibling));
  const double paid_for = std::max(1.0, std::floor(topology.quota));
  const int wanted = n_threads == 0 ? n_cores : std::min(n_threads, n_cpus);
  const int granted = paid_for < wanted ? static_cast<int>(paid_for) : wanted;

  Placement placement = {.n_usable = n_cpus};
  std::set<int> all_nodes;
  std::set<int> nodes;
  for (const Rank& rank : ranks) {
    if (rank.node != kNoNode) all_nodes.insert(rank.node);
    if (static_cast<int>(placement.cpus.size()) == granted) continue;
    placement.cpus.push_back(rank.id);
    if (rank.node != kNoNode) nodes.insert(rank.node);
  }
  if (all_nodes.size() > 1) placement.nodes.assign(nodes.begin(), nodes.end());
  return placement;
}

}  // namespace penstock
