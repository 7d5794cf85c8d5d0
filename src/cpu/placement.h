// Which CPUs the pool's workers are pinned to, and so which memory the weights belong in. A pure
// function of the topology: no machine is asked.
#pragma once

#include <vector>

#include "cpu/topology.h"

namespace penstock {

struct Placement {
  std::vector<int> cpus = {};  // worker i's; empty only if the topology is
  // NUMA nodes for what all workers read, ascending: those of the workers' CPUs. Empty where there
  // is nothing to choose, because all usable CPUs have their memory on the same node.
  std::vector<int> nodes = {};
  int n_usable = 0;  // CPUs that the process may use
};

// Unless a number of threads is asked for (0: none is), there is one on each core: its second
// hardware thread brings no bandwidth and no matrix unit, and takes half of the first's caches.
// Never more than the quota pays for, asked for or not: a thread beyond that is stopped by the
// kernel in the middle of a step while all others wait for it. A fraction of a CPU is no thread
// either, but one there always is.
//
// First come fast cores, then slow ones, which take as many chunks as they manage, then SMT
// siblings. Among equals one package is filled before the next, the one with most cores first, so
// that a small pool has its memory near; inside a package its NUMA nodes take turns, for they are
// parts of one memory, each with some of its channels.
Placement place_workers(const Topology& topology, int n_threads);

}  // namespace penstock
