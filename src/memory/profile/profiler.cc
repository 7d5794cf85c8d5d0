#include "memory/profile/profiler.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/units.h"
#include "base/version.h"
#include "cuda/cuda_library.h"
#include "cuda/nvidia_driver.h"
#include "memory/profile/machine_facts.h"
#include "os/system_info.h"

namespace penstock {
namespace {

constexpr uint64_t kMostLocked = 2 * kGiB;  // locked in about a second
constexpr uint64_t kShareOfAvailable = 4;

// "2026-11-30 22:24"
std::string utc_now() {
  using namespace std::chrono;
  const auto now = floor<minutes>(system_clock::now());
  const auto day = floor<days>(now);
  const year_month_day date(day);
  const hh_mm_ss time(now - day);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count());
}

void keep(const CpuMeasurement& cpu, MachineProfile& profile) {
  for (const auto& [n_threads, rate] : cpu.read_gb_s) {
    profile.read_gb_s_by_threads[std::to_string(n_threads)] = rate;
  }
  profile.rested_read_gb_s = cpu.rested_read_gb_s;
  profile.machine.ram.read_gb_s = cpu.read_gb_s.at(cpu.n_threads);
  profile.machine.cpu.expert_gb_s = cpu.expert_gb_s;
  profile.machine.cpu.attention_gb_s = cpu.attention_gb_s;
  profile.machine.cpu.prefill_tflop_s = cpu.prefill_tflop_s;
}

Result<CpuMeasurement> measure_cpu(bool is_quick, uint64_t available_bytes,
                                   const ProgressFn& progress) {
  PENSTOCK_ASSIGN(const CpuEffort effort,
                  cpu_effort(is_quick, available_bytes, largest_cache_bytes()));
  return measure_cpu(effort, progress);
}

// The plan's GPUs are those that a model runs on: none yet. So its rates are kept beside them.
Result<GpuMeasurement> measure_first_gpu(bool is_quick, uint64_t available_bytes,
                                         MachineProfile& profile) {
  PENSTOCK_ASSIGN(const auto library, CudaLibrary::load());
  PENSTOCK_ASSIGN(const std::vector<CudaDevice> devices, library->devices());
  PENSTOCK_ASSIGN(const CudaDevice device, choose_device(devices, /*wanted=*/""));
  PENSTOCK_ASSIGN(const auto driver, NvidiaDriver::open(library, device));
  GpuEffort effort = is_quick ? kQuickGpuEffort : kFullGpuEffort;
  effort.most_pinned_bytes =
      std::min(effort.most_pinned_bytes, available_bytes / kShareOfAvailable);
  PENSTOCK_ASSIGN(const GpuMeasurement measured, measure_gpu(*driver, effort));
  profile.gpus.push_back({.name = device.name,
                          .vram_total_bytes = measured.vram.total_bytes,
                          .vram_free_bytes = measured.vram.free_bytes,
                          .host_to_device_gb_s = measured.to_gpu});
  if (measured.pins.was_refused) profile.machine.pin_quota_bytes = measured.pins.pinned_bytes;
  return measured;
}

}  // namespace

Measurements measure_this_machine(const ProfilerOptions& options, const GpuReport& gpus,
                                  const ProgressFn& disk_progress, const ProgressFn& cpu_progress) {
  Measurements all;
  MachineProfile& profile = all.profile;
  profile = {.date = utc_now(),
             .effort = options.is_quick ? "quick" : "full",
             .version = std::string(version()),
             .machine = machine_facts(gpus)};
  const uint64_t available = profile.machine.ram.available_bytes;
  all.locks = probe_locks(std::min(kMostLocked, available / kShareOfAvailable));
  // The disk first: its threads, where io_uring is refused, want more than the one CPU that the
  // pools leave this thread.
  const DiskEffort& disk_effort = options.is_quick ? kQuickDiskEffort : kFullDiskEffort;
  if (auto disk = measure_disk(options.disk_folder, disk_effort, disk_progress)) {
    profile.machine.disk = disk->rates;
    profile.disk_folder = options.disk_folder.string();
    all.disk = *std::move(disk);
  } else {
    all.no_disk = disk.error().text();
  }
  if (auto gpu = measure_first_gpu(options.is_quick, available, profile)) {
    all.gpu = *std::move(gpu);
  } else {
    all.no_gpu = gpu.error().text();
  }
  if (auto cpu = measure_cpu(options.is_quick, available, cpu_progress)) {
    keep(*cpu, profile);
    all.cpu = *std::move(cpu);
  } else {
    all.no_cpu = cpu.error().text();
  }
  return all;
}

}  // namespace penstock
