#include "os/cpu_limits.h"

#include <windows.h>

#include <limits>
#include <thread>

namespace penstock {

// Of the process's processor group, which has 64 CPUs at most: where a machine has more groups, the
// others' are not used.
std::vector<int> affinity_cpus() {
  DWORD_PTR process = 0;
  DWORD_PTR system = 0;
  if (::GetProcessAffinityMask(::GetCurrentProcess(), &process, &system) == FALSE) return {};
  std::vector<int> cpus;
  for (int cpu = 0; cpu < 64; ++cpu) {
    if ((process >> cpu & 1) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

// A job's hard cap on the CPU rate, in hundredths of a percent of all CPUs.
double cgroup_cpu_quota(const std::filesystem::path& /*root*/) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate = {};
  if (::QueryInformationJobObject(nullptr, JobObjectCpuRateControlInformation, &rate, sizeof(rate),
                                  nullptr) == FALSE) {
    return kUnlimited;  // it is in none
  }
  constexpr DWORD kHardCap =
      JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
  if ((rate.ControlFlags & kHardCap) != kHardCap || rate.CpuRate == 0) return kUnlimited;
  return rate.CpuRate / 10'000.0 * std::thread::hardware_concurrency();
}

bool pin_this_thread(int cpu) {
  if (cpu < 0 || cpu >= 64) return false;
  return ::SetThreadAffinityMask(::GetCurrentThread(), DWORD_PTR{1} << cpu) != 0;
}

}  // namespace penstock
