#include "os/cpu_limits.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>

#include "os/linux/cgroup.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct CpuSetFree {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, CpuSetFree>;

double quota_v2(const fs::path& group) {
  const auto max = read_numbers(group / "cpu.max", 2);  // "quota period" or "max period"
  return max && (*max)[0] > 0 && (*max)[1] > 0 ? (*max)[0] / (*max)[1] : kUnlimited;
}

double quota_v1(const fs::path& group) {
  const auto quota = read_numbers(group / "cpu.cfs_quota_us", 1);  // -1: none
  const auto period = read_numbers(group / "cpu.cfs_period_us", 1);
  if (!quota || !period || (*quota)[0] <= 0 || (*period)[0] <= 0) return kUnlimited;
  return (*quota)[0] / (*period)[0];
}

}  // namespace

std::vector<int> affinity_cpus() {
  // The kernel refuses a set smaller than its own, whose size it does not tell.
  for (int n_cpus = CPU_SETSIZE; n_cpus <= (1 << 20); n_cpus *= 2) {
    const CpuSet set(CPU_ALLOC(static_cast<size_t>(n_cpus)));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(n_cpus));
    if (!set) break;
    if (::sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < n_cpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

double cgroup_cpu_quota(const std::filesystem::path& root) {
  double quota = kUnlimited;
  for_each_cgroup(root, "cpu", [&](const fs::path& group, CgroupVersion version) {
    quota = std::min(quota, version == CgroupVersion::kV2 ? quota_v2(group) : quota_v1(group));
  });
  return quota;
}

bool pin_this_thread(int cpu) {
  if (cpu < 0) return false;
  const CpuSet set(CPU_ALLOC(static_cast<size_t>(cpu) + 1));
  if (!set) return false;
  const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpu) + 1);
  CPU_ZERO_S(bytes, set.get());
  CPU_SET_S(static_cast<size_t>(cpu), bytes, set.get());
  return ::pthread_setaffinity_np(::pthread_self(), bytes, set.get()) == 0;
}

}  // namespace penstock
