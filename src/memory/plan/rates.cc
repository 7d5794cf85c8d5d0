#include "memory/plan/rates.h"

#include <algorithm>
#include <optional>

namespace penstock {
namespace {

constexpr double kGb = 1e9;
constexpr double kTera = 1e12;

// An ordinary desktop's.
constexpr double kStandInRamRead = 40 * kGb;
constexpr double kStandInCpuShare = 0.75;  // of the RAM's rate that a decode kernel reaches
constexpr double kStandInCpuArithmetic = 1 * kTera;
constexpr double kStandInVram = 400 * kGb;
constexpr double kStandInGpuArithmetic = 50 * kTera;
constexpr double kStandInLink = 12 * kGb;
constexpr double kStandInDisk = 2 * kGb;
constexpr double kStandInSmallReads = 50e3;

std::optional<double> greater(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::max(*a, *b);
}

// Nothing has to be unpacked: they are multiplied as fast as they are read.
bool is_plain(std::string_view format) {
  return format == "bf16" || format == "f16" || format == "f32";
}

struct RateNames {
  Rate rate;
  std::string_view name;
  std::string_view field;
};
constexpr std::array<RateNames, kRates> kNames = {{
    {Rate::kRamRead, "memory read rate", "ram.read_gb_s"},
    {Rate::kCpuExperts, "CPU kernels", "cpu.expert_gb_s"},
    {Rate::kCpuArithmetic, "CPU arithmetic", "cpu.prefill_tflop_s"},
    {Rate::kVram, "VRAM read rate", "gpus.vram_gb_s"},
    {Rate::kGpuArithmetic, "GPU arithmetic", "gpus.prefill_tflop_s"},
    {Rate::kHostToDevice, "link to the GPU", "gpus.host_to_device_gb_s"},
    {Rate::kMissCopies, "link to the GPU", "gpus.zero_copy_gb_s"},
    {Rate::kDiskRandom, "disk", "disk.random_gb_s"},
    {Rate::kDiskSequential, "disk", "disk.sequential_gb_s"},
    {Rate::kSmallReads, "small disk reads", "disk.small_reads_a_s"},
    {Rate::kModelArithmetic, "model's arithmetic", "dense_params and expert_params"},
}};

}  // namespace

std::string_view to_string(Rate rate) { return kNames[static_cast<size_t>(rate)].name; }
std::string_view field_of(Rate rate) { return kNames[static_cast<size_t>(rate)].field; }

PlanRates::PlanRates(const Machine& machine, const MachineGpu* gpu) : machine_(machine) {
  // Known for each format and each model apart.
  set(Rate::kCpuExperts, 1, 1, 1);
  set(Rate::kModelArithmetic, 1, 1, 1);
  set(Rate::kRamRead, machine.ram.read_gb_s, kGb, kStandInRamRead);
  set(Rate::kCpuArithmetic, machine.cpu.prefill_tflop_s, kTera, kStandInCpuArithmetic);
  set(Rate::kDiskRandom, machine.disk.random_gb_s, kGb, kStandInDisk);
  set(Rate::kDiskSequential, machine.disk.sequential_gb_s, kGb, kStandInDisk);
  set(Rate::kSmallReads, machine.disk.small_reads_a_s, 1, kStandInSmallReads);
  if (gpu == nullptr) return;
  set(Rate::kVram, gpu->vram_gb_s, kGb, std::max(kStandInVram, (*this)[Rate::kRamRead]));
  set(Rate::kGpuArithmetic, gpu->prefill_tflop_s, kTera, kStandInGpuArithmetic);
  set(Rate::kHostToDevice, gpu->host_to_device_gb_s, kGb, kStandInLink);
  set(Rate::kMissCopies, greater(gpu->zero_copy_gb_s, gpu->host_to_device_gb_s), kGb, kStandInLink);
}

void PlanRates::set(Rate rate, std::optional<double> value, double unit, double stand_in) {
  rates_[static_cast<size_t>(rate)] = {.per_second = value ? *value * unit : stand_in,
                                       .is_known = value.has_value()};
}

PlanRates::Known PlanRates::cpu_weights(const std::string& format) const {
  const double ram = (*this)[Rate::kRamRead];
  const auto found = machine_.cpu.expert_gb_s.find(format);
  if (found == machine_.cpu.expert_gb_s.end()) {
    if (is_plain(format) && is_known(Rate::kRamRead)) return at(Rate::kRamRead);
    return {.per_second = kStandInCpuShare * ram};
  }
  const double rate = found->second * kGb;
  // Where the RAM's rate is a stand-in it must not hold back one that was measured.
  return {.per_second = is_known(Rate::kRamRead) ? std::min(rate, ram) : rate, .is_known = true};
}

double PlanRates::cpu_attention() const {
  const double ram = (*this)[Rate::kRamRead];
  const std::optional<double>& rate = machine_.cpu.attention_gb_s;
  return rate ? std::min(*rate * kGb, ram) : ram;
}

}  // namespace penstock
