// The machine's logical CPUs as this process may use them: which share a core, which memory is
// nearest, which are faster; and how much of their time the cgroup pays for.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

inline constexpr int kNoNode = -1;

struct LogicalCpu {
  int id = 0;          // the OS's number, by which a thread is pinned
  int core = 0;        // SMT siblings have the same
  int package = 0;     // the processor that the core is part of
  int node = kNoNode;  // the OS's number of the NUMA node it shares memory with; kNoNode: no memory
  int speed = 0;       // rank of its kind, higher is faster; all 0 where there is but one kind

  bool operator==(const LogicalCpu&) const = default;
};

struct Topology {
  std::vector<LogicalCpu> cpus = {};  // ids ascend
  // CPU seconds a second that the cgroup pays for; infinity when nothing limits them.
  double quota = std::numeric_limits<double>::infinity();
  std::string note = {};  // what could not be found out, for the caller's log; or empty
};

// What the calling thread may use now: its affinity mask, the cgroup's CPUs and the quota.
Topology usable_topology();

// The parts of usable_topology. A description is XML or a synthetic one ("package:2 core:4 pu:2"),
// as hwloc's manual has them; none means this machine.
Result<Topology> read_topology(const std::string& description = {});
// The CPUs of `mask` (ids ascend), an empty mask meaning all; those that the topology does not know
// are cores of their own, without a node.
Topology within(const Topology& topology, std::span<const int> mask);

}  // namespace penstock
