// All that `penstock doctor` has to judge: what was measured, how the system is set, who holds the
// GPUs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cuda/nvml.h"
#include "memory/profile/profiler.h"
#include "os/process_info.h"
#include "os/system_info.h"

namespace penstock {

struct SystemFacts {
  bool is_wsl2 = false;
  std::optional<uint64_t> cgroup_bytes = {};  // that a cgroup below the RAM allows
  uint64_t swap_bytes = 0;
  double load = 0;  // of others, before anything is measured
  std::optional<HugePages> huge_pages = {};
};
// Reads /proc, /sys and the cgroup file systems below `root` (tests bring their own).
SystemFacts system_facts(const std::filesystem::path& root = "/");

// A process that computes on a GPU, and so may hold page-locked memory.
struct GpuHolder {
  size_t gpu = 0;
  GpuProcess process = {};
  std::optional<ProcessInfo> info = {};  // absent: not to be seen from here, as in a container
  std::optional<ProcessInfo> parent = {};
};
std::vector<GpuHolder> gpu_holders(const GpuReport& gpus, const std::filesystem::path& root = "/");

struct Examination {
  SystemFacts system = {};
  Measurements measured = {};
  GpuReport gpus = {};
  std::string no_gpus = {};  // why the driver's library could not be asked
  std::vector<GpuHolder> holders = {};
};

}  // namespace penstock
