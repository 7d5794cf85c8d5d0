#include "cli/doctor/findings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.h"

namespace penstock {
namespace {

// Below these a row is weak. An ordinary desktop with two channels of DDR4 reads 30 GB/s and more,
// an NVMe disk 2 to 7.
constexpr double kLeastReadGbS = 15;
constexpr double kLeastDiskGbS = 1;
constexpr double kLeastShareAfterRest = 0.6;  // of the rate at once
constexpr double kLeastShareOfRead = 0.5;     // that kernels reach of RAM's rate
constexpr double kMostLoad = 0.5;             // programs at a time, beside this one
constexpr double kLeastShareAvailable = 0.5;  // of RAM and of VRAM

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}
Verdict weak_if(bool is_weak) { return is_weak ? Verdict::kWeak : Verdict::kGood; }

// Advice belongs to rows that are not good.
Finding finding(std::string row, std::string found, Verdict verdict,
                std::vector<std::string> advice) {
  if (verdict == Verdict::kGood) advice.clear();
  return {std::move(row), std::move(found), verdict, std::move(advice)};
}

class Judge {
 public:
  explicit Judge(const Examination& of) : of_(of), machine_(of.measured.profile.machine) {}

  std::vector<Finding> judge() {
    cpu();
    ram();
    memory_limits();
    reads();
    huge_pages();
    kernels();
    disk();
    locks();
    gpus();
    return std::move(findings_);
  }

 private:
  void add(std::string row, std::string found, Verdict verdict,
           std::vector<std::string> advice = {}) {
    findings_.push_back(finding(std::move(row), std::move(found), verdict, std::move(advice)));
  }

  void cpu() {
    std::string found = machine_.key.cpu;
    const bool is_scalar = of_.measured.cpu && of_.measured.cpu->isa == Isa::kScalar;
    if (of_.measured.cpu) found += fmt::format(", {}", to_string(of_.measured.cpu->isa));
    add("load", fmt::format("{:.1f} other programs wanted a CPU when this began", of_.system.load),
        weak_if(of_.system.load > kMostLoad),
        {"rates are lower than this machine's: end the others (top shows them), then doctor "
         "again"});
    add("CPU", found, weak_if(is_scalar),
        {"without AVX2 the kernels are plain C++; unset PENSTOCK_CPU_ISA where it is set"});
  }

  void ram() {
    const MachineRam& ram = machine_.ram;
    add("RAM",
        fmt::format("{}, {} available", format_bytes(ram.total_bytes),
                    format_bytes(ram.available_bytes)),
        weak_if(share(ram.available_bytes, ram.total_bytes) < kLeastShareAvailable),
        {"end what holds it: ps -eo pid,rss,args --sort=-rss | head"});
  }

  void memory_limits() {
    if (of_.system.cgroup_bytes) {
      add("cgroup limit", fmt::format("{} of the RAM", format_bytes(*of_.system.cgroup_bytes)),
          Verdict::kWeak,
          {"systemd: systemctl set-property UNIT MemoryMax=infinity",
           "containers: start them with a larger --memory, or without"});
    }
    if (of_.system.is_wsl2) {
      add("WSL2", fmt::format("Windows gives it {}", format_bytes(machine_.ram.total_bytes)),
          Verdict::kWeak,
          {"more of the RAM: in %UserProfile%\\.wslconfig, below [wsl2], memory=SIZEGB; then "
           "wsl --shutdown"});
    }
    const bool may_swap = of_.system.swap_bytes > 0 && machine_.ram.memlock_bytes &&
                          *machine_.ram.memlock_bytes < machine_.ram.total_bytes;
    add("swap", of_.system.swap_bytes == 0 ? "none" : format_bytes(of_.system.swap_bytes),
        weak_if(may_swap),
        {"weights that may not be locked can be swapped out: raise memlock, or sudo swapoff -a"});
  }

  void reads() {
    if (!of_.measured.cpu) {
      add("memory reads", of_.measured.no_cpu, Verdict::kMissing);
      return;
    }
    const CpuMeasurement& cpu = *of_.measured.cpu;
    std::vector<std::string> rates;
    for (const auto& [n_threads, rate] : cpu.read_gb_s) {
      rates.push_back(rates.empty() ? fmt::format("{:.1f} GB/s by {} thread", rate, n_threads)
                                    : fmt::format("{:.1f} by {}", rate, n_threads));
    }
    const double all = cpu.read_gb_s.at(cpu.n_threads);
    add("memory reads", fmt::format("{}", fmt::join(rates, ", ")), weak_if(all < kLeastReadGbS),
        {"a module in every memory channel; see with top whether others are at work"});
    add("after a rest",
        fmt::format("{:.1f} GB/s where nobody read for a second", cpu.rested_read_gb_s),
        weak_if(cpu.rested_read_gb_s < kLeastShareAfterRest * all),
        {"a virtual machine whose host takes its pages back: give it memory of its own (huge "
         "pages, no ballooning), or run on the host"});
  }

  void huge_pages() {
    const auto policy = of_.system.huge_pages;
    constexpr auto kAdvice = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
    if (policy) {
      add("huge pages", std::string(to_string(*policy)), weak_if(*policy == HugePages::kNever),
          {kAdvice});
    } else {
      add("huge pages", "the kernel has no transparent huge pages", Verdict::kMissing);
    }
  }

  void kernels() {
    if (!of_.measured.cpu) return;
    const CpuMeasurement& cpu = *of_.measured.cpu;
    std::vector<std::string> shown;
    double least = cpu.read_gb_s.at(cpu.n_threads);
    for (const std::string format :
         {"q4_0", "q4_k", "q8_0", "mxfp4", "nvfp4", "fp8-block", "bf16"}) {
      const auto rate = cpu.expert_gb_s.find(format);
      if (rate == cpu.expert_gb_s.end()) continue;
      shown.push_back(fmt::format("{} {:.1f}", format, rate->second));
      least = std::min(least, rate->second);
    }
    const double read = cpu.read_gb_s.at(cpu.n_threads);
    add("experts", fmt::format("{} GB/s", fmt::join(shown, ", ")),
        weak_if(least < kLeastShareOfRead * read),
        {"bound by the cores, not by memory: penstock bench kernels shows where; for some formats "
         "penstock pack --experts-format makes another"});
    add("attention", fmt::format("{:.1f} GB/s of keys and values", cpu.attention_gb_s),
        Verdict::kGood);
    add("prompts", fmt::format("{:.2f} TFLOP/s", cpu.prefill_tflop_s), Verdict::kGood);
  }

  void disk() {
    if (!of_.measured.disk) {
      add("disk", of_.measured.no_disk, Verdict::kMissing, {"penstock doctor --disk DIR"});
      return;
    }
    const DiskMeasurement& disk = *of_.measured.disk;
    const std::string& folder = of_.measured.profile.disk_folder;
    const double experts = disk.rates.random_gb_s.value_or(0);
    add("disk",
        fmt::format("{:.2f} GB/s in order, {:.2f} by expert, {} reads/s of 4 KiB ({})",
                    disk.rates.sequential_gb_s.value_or(0), experts,
                    format_count(static_cast<uint64_t>(disk.rates.small_reads_a_s.value_or(0))),
                    folder),
        weak_if(experts < kLeastDiskGbS),
        {"packs that do not fit RAM want an NVMe disk: penstock doctor --disk DIR tries another"});
    const bool is_uring = disk.backend == "io_uring";
    std::vector<std::string> advice;
    if (!disk.is_direct) {
      advice.push_back("this file system refuses O_DIRECT: keep packs on ext4 or xfs");
    }
    if (!is_uring) {
      advice.push_back(
          "io_uring is refused: sudo sysctl kernel.io_uring_disabled=0, or a "
          "container's seccomp profile that allows it");
    }
    add("direct reads",
        fmt::format("{}, {}", disk.is_direct ? "O_DIRECT" : "through the page cache", disk.backend),
        weak_if(!advice.empty()), advice);
  }

  void locks() {
    const auto& limit = machine_.ram.memlock_bytes;
    const LockProbe& probe = of_.measured.locks;
    const std::string tried =
        probe.was_refused
            ? fmt::format("{} were granted, at most", format_bytes(probe.locked_bytes))
            : fmt::format("{} tried and granted", format_bytes(probe.locked_bytes));
    const uint64_t allowed = std::min(limit.value_or(machine_.ram.total_bytes),
                                      probe.was_refused ? probe.locked_bytes : ~uint64_t{0});
    add("memlock", fmt::format("{}; {}", limit ? format_bytes(*limit) : "no limit", tried),
        weak_if(share(allowed, machine_.ram.total_bytes) < kLeastShareAvailable),
        {"this shell: ulimit -l unlimited",
         "every login: USER - memlock unlimited, in /etc/security/limits.conf",
         "a systemd unit: LimitMEMLOCK=infinity"});
  }

  void gpus() {
    if (of_.gpus.gpus.empty()) {
      add("GPU", of_.no_gpus.empty() ? "none" : fmt::format("none ({})", of_.no_gpus),
          Verdict::kMissing);
    }
    for (size_t i = 0; i < of_.gpus.gpus.size(); ++i) gpu(i);
    gpu_link();
  }

  void gpu_link() {
    const auto& gpu = of_.measured.gpu;
    if (!gpu) {
      const std::string why = of_.gpus.gpus.empty() ? "no GPU" : of_.measured.no_gpu;
      add("GPU link", fmt::format("not measured: {}", why), Verdict::kMissing);
      add("pin quota", fmt::format("not known: {}", why), Verdict::kMissing);
      return;
    }
    add("GPU link",
        fmt::format(
            "{:.1f} GB/s to the GPU, {:.1f} back, {:.1f} by expert, all page-locked; {:.1f} "
            "from RAM that is not",
            gpu->to_gpu, gpu->to_host, gpu->experts_to_gpu, gpu->pageable_to_gpu),
        Verdict::kGood);
    const std::string pinned = format_bytes(gpu->pins.pinned_bytes);
    add("pin quota",
        gpu->pins.was_refused
            ? fmt::format("{} page-locked by a process that does nothing else: an upper bound",
                          pinned)
            : fmt::format("{} tried and granted", pinned),
        weak_if(gpu->pins.was_refused &&
                share(gpu->pins.pinned_bytes, machine_.ram.total_bytes) < kLeastShareAvailable),
        {"what other programs page-lock counts: end those in the GPU's row",
         "Windows and WSL2 page-lock about half of the RAM at most: more RAM helps"});
  }

  void gpu(size_t index) {
    const GpuStatus& gpu = of_.gpus.gpus[index];
    std::string found =
        fmt::format("{}, {} of {} VRAM free", gpu.name, format_bytes(gpu.vram_free_bytes),
                    format_bytes(gpu.vram_total_bytes));
    if (!gpu.link.empty()) found += ", " + gpu.link;
    std::vector<std::string> advice;
    for (const GpuHolder& holder : of_.holders) {
      if (holder.gpu == index) advice.push_back(describe(holder));
    }
    const bool is_held =
        !advice.empty() || share(gpu.vram_free_bytes, gpu.vram_total_bytes) < kLeastShareAvailable;
    if (advice.empty()) advice.push_back("what holds its memory is not to be seen from here");
    add(fmt::format("GPU {}", index), found, weak_if(is_held), advice);
  }

  const Examination& of_;
  const Machine& machine_;
  std::vector<Finding> findings_;
};

std::string name_of(const ProcessInfo& process) {
  return fmt::format("pid {} {}", process.pid, process.name);
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kWeak:
      return "weak";
    case Verdict::kMissing:
      return "missing";
  }
  return "?";
}

std::vector<Finding> findings_of(const Examination& examination) {
  return Judge(examination).judge();
}

std::string describe(const GpuHolder& holder) {
  std::string text = holder.info
                         ? name_of(*holder.info)
                         : fmt::format("pid {}, not to be seen from here", holder.process.pid);
  if (holder.parent) text += ", started by " + name_of(*holder.parent);
  std::vector<std::string> held;
  if (holder.process.vram_bytes) {
    held.push_back(fmt::format("{} of VRAM", format_bytes(*holder.process.vram_bytes)));
  }
  if (holder.info) held.push_back(fmt::format("{} of RAM", format_bytes(holder.info->rss_bytes)));
  if (!held.empty()) text += fmt::format(": {}", fmt::join(held, ", "));
  return text + "; may hold pinned memory";
}

}  // namespace penstock
