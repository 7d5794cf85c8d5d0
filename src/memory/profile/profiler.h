// Measures this machine: what `penstock doctor` runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "cuda/nvml.h"
#include "memory/profile/lock_probe.h"
#include "memory/profile/machine_profile.h"
#include "memory/profile/measure_cpu.h"
#include "memory/profile/measure_disk.h"
#include "memory/profile/measure_gpu.h"

namespace penstock {

struct ProfilerOptions {
  std::filesystem::path disk_folder = {};
  bool is_quick = false;  // seconds, for a look; rates are less exact
};

// What could be measured, and why the rest could not.
struct Measurements {
  MachineProfile profile = {};
  LockProbe locks = {};
  std::optional<CpuMeasurement> cpu = {};
  std::optional<DiskMeasurement> disk = {};
  std::optional<GpuMeasurement> gpu = {};  // of the first
  std::string no_cpu = {};                 // why, where there is none
  std::string no_disk = {};
  std::string no_gpu = {};
};

// The progress of the disk counts bytes, that of the CPU measurements. Pins the calling thread to
// one CPU, for good.
Measurements measure_this_machine(const ProfilerOptions& options, const GpuReport& gpus,
                                  const ProgressFn& disk_progress, const ProgressFn& cpu_progress);

}  // namespace penstock
