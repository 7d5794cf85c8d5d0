#include "cpu/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "os/cpu_limits.h"

namespace penstock {
namespace {

struct HwlocFree {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Hwloc = std::unique_ptr<hwloc_topology, HwlocFree>;

Result<Hwloc> load_hwloc(const std::string& description) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return fail(ErrorKind::kExhausted, "hwloc has no memory for a topology");
  }
  Hwloc topology(raw);
  int rc = 0;
  if (description.starts_with("<")) {
    rc = hwloc_topology_set_xmlbuffer(raw, description.c_str(),
                                      static_cast<int>(description.size()) + 1);
  } else if (!description.empty()) {
    rc = hwloc_topology_set_synthetic(raw, description.c_str());
  }
  // It may otherwise visit every CPU with this thread, to ask each for its CPUID.
  if (rc == 0) rc = hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  if (rc == 0) rc = hwloc_topology_load(raw);
  if (rc != 0) return fail(ErrorKind::kInvalidData, "hwloc cannot read the CPUs' topology");
  return topology;
}

// hwloc ranks the kinds of a hybrid machine by how fast a core of them is, where it can tell.
int speed_of(const Hwloc& topology, hwloc_obj_t pu) {
  const int kind = hwloc_cpukinds_get_by_cpuset(topology.get(), pu->cpuset, 0);
  int efficiency = 0;
  if (kind < 0 || hwloc_cpukinds_get_info(topology.get(), static_cast<unsigned>(kind), nullptr,
                                          &efficiency, nullptr, nullptr, 0) != 0) {
    return 0;
  }
  return std::max(efficiency, 0);
}

// The first node beside the CPU that has memory: before high-bandwidth memory comes the ordinary.
int node_of(const Hwloc& topology, hwloc_obj_t pu) {
  for (int node = hwloc_bitmap_first(pu->nodeset); node >= 0;
       node = hwloc_bitmap_next(pu->nodeset, node)) {
    const hwloc_obj_t found =
        hwloc_get_numanode_obj_by_os_index(topology.get(), static_cast<unsigned>(node));
    if (found != nullptr && found->attr->numanode.local_memory > 0) return node;
  }
  return kNoNode;
}

// Numbers things 0, 1, ... as they come.
class Numbering {
 public:
  int of(uint64_t thing) {
    return numbers_.try_emplace(thing, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<uint64_t, int> numbers_;
};

}  // namespace

Result<Topology> read_topology(const std::string& description) {
  PENSTOCK_ASSIGN(const Hwloc hwloc, load_hwloc(description));
  const auto id_around = [&](hwloc_obj_t pu, hwloc_obj_type_t type) {
    const hwloc_obj_t around = hwloc_get_ancestor_obj_by_type(hwloc.get(), type, pu);
    return around == nullptr ? uint64_t{0} : around->gp_index;
  };
  Topology topology;
  Numbering cores;
  Numbering packages;
  hwloc_const_bitmap_t cpus = hwloc_topology_get_topology_cpuset(hwloc.get());
  for (int id = hwloc_bitmap_first(cpus); id >= 0; id = hwloc_bitmap_next(cpus, id)) {
    const hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(hwloc.get(), static_cast<unsigned>(id));
    if (pu == nullptr) continue;
    const uint64_t core = id_around(pu, HWLOC_OBJ_CORE);
    topology.cpus.push_back({.id = id,
                             .core = cores.of(core == 0 ? pu->gp_index : core),
                             .package = packages.of(id_around(pu, HWLOC_OBJ_PACKAGE)),
                             .node = node_of(hwloc, pu),
                             .speed = speed_of(hwloc, pu)});
  }
  return topology;
}

Topology within(const Topology& topology, std::span<const int> mask) {
  if (mask.empty()) return topology;
  Topology usable = {.quota = topology.quota, .note = topology.note};
  int next_core = 0;
  for (const LogicalCpu& cpu : topology.cpus) next_core = std::max(next_core, cpu.core + 1);
  for (const int id : mask) {
    const auto known = std::ranges::lower_bound(topology.cpus, id, {}, &LogicalCpu::id);
    if (known != topology.cpus.end() && known->id == id) {
      usable.cpus.push_back(*known);
    } else {
      usable.cpus.push_back({.id = id, .core = next_core++});
    }
  }
  return usable;
}

Topology usable_topology() {
  Result<Topology> machine = read_topology();
  Topology topology = machine ? *std::move(machine) : Topology{.note = machine.error().message};
  topology.quota = cgroup_cpu_quota();
  return within(topology, affinity_cpus());
}

}  // namespace penstock
