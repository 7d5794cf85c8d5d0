// The rates that bound a plan, each known or not, in bytes (or operations, or reads) a second.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "memory/plan/machine.h"

namespace penstock {

enum class Rate : uint8_t {
  kRamRead,
  kCpuExperts,     // weights that the decode kernels multiply
  kCpuArithmetic,  // of prefill
  kVram,
  kGpuArithmetic,
  kHostToDevice,  // copies of whole banks, in prefill
  kMissCopies,    // of single experts, in decode
  kDiskRandom,
  kDiskSequential,
  kSmallReads,
  kModelArithmetic,  // how many weights the model multiplies, where its description says
};
inline constexpr size_t kRates = static_cast<size_t>(Rate::kModelArithmetic) + 1;

std::string_view to_string(Rate rate);  // "memory read rate"
std::string_view field_of(Rate rate);   // "ram.read_gb_s", as a machine's description has it

// Where a rate is not known, a stand-in decides between placements; nothing is predicted from it.
class PlanRates {
 public:
  struct Known {
    double per_second = 0;
    bool is_known = false;
  };

  // gpu: null where none is used.
  PlanRates(const Machine& machine, const MachineGpu* gpu);

  double operator[](Rate rate) const { return at(rate).per_second; }
  bool is_known(Rate rate) const { return at(rate).is_known; }
  // Weights of one format in RAM. Never above what RAM is read with.
  Known cpu_weights(const std::string& format) const;
  // Keys and values in RAM that the CPU's attention reads; known where the RAM's rate is.
  double cpu_attention() const;

 private:
  const Known& at(Rate rate) const { return rates_[static_cast<size_t>(rate)]; }
  void set(Rate rate, std::optional<double> value, double unit, double stand_in);

  const Machine& machine_;
  std::array<Known, kRates> rates_ = {};
};

}  // namespace penstock
