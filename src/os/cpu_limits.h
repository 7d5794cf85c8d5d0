// What the kernel lets this process have of the CPUs: the affinity mask, the cgroup's quota, and
// which CPUs share a core.
#pragma once

#include <filesystem>
#include <limits>
#include <vector>

namespace penstock {

struct CpuLimits {
  // The affinity mask. One CPU of each core comes first, so that the first n avoid SMT siblings.
  std::vector<int> cpus = {};
  // CPU seconds a second that the cgroup pays for; infinity when nothing limits them.
  double quota = std::numeric_limits<double>::infinity();

  // Threads that may be runnable at once without being throttled: at least 1. A fraction of the
  // quota is not a thread: one more, spinning beside the others, would only bring throttling
  // nearer.
  int n_threads() const;
};

// Reads the calling thread's mask, and below `root` (tests bring their own) /proc/self and /sys.
// What cannot be read limits nothing.
CpuLimits cpu_limits(const std::filesystem::path& root = "/");

// The parts of cpu_limits that read files.
double cgroup_cpu_quota(const std::filesystem::path& root);
std::vector<int> cores_first(std::vector<int> cpus, const std::filesystem::path& root);

// Keeps the calling thread on one CPU; false when the kernel refuses.
bool pin_this_thread(int cpu);

}  // namespace penstock
