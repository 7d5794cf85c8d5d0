// What the kernel lets this process have of the CPUs: the affinity mask and the cgroup's quota.
#pragma once

#include <filesystem>
#include <vector>

namespace penstock {

// The calling thread's affinity mask, ascending; empty when the kernel does not say.
std::vector<int> affinity_cpus();

// CPU seconds a second that the process's cgroup (v1 or v2) and the groups around it pay for;
// infinity when nothing limits them, or nothing readable. Reads /proc/self and the cgroup file
// systems below `root` (tests bring their own).
double cgroup_cpu_quota(const std::filesystem::path& root = "/");

// Keeps the calling thread on one CPU; false when the kernel refuses.
bool pin_this_thread(int cpu);

}  // namespace penstock
