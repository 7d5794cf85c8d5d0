#include "memory/profile/profiler.h"

#include <algorithm>
#include <chrono>

#include "base/units.h"
#include "base/version.h"
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
  if (auto cpu = measure_cpu(options.is_quick, available, cpu_progress)) {
    keep(*cpu, profile);
    all.cpu = *std::move(cpu);
  } else {
    all.no_cpu = cpu.error().text();
  }
  return all;
}

}  // namespace penstock
