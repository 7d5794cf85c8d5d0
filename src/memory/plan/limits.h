// What the user has decided about a plan: explicit values win, the rest adapts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "memory/plan/demands.h"
#include "memory/plan/machine.h"

namespace penstock {

enum class BankPlace : uint8_t { kRam, kDisk };

struct Limits {
  bool use_gpu = true;          // --gpu none
  std::optional<int> gpu = {};  // --gpu N: this one, or a shortfall
  // --pin-budget; 0 (also PENSTOCK_NO_PINNED=1) page-locks nothing.
  std::optional<uint64_t> pin_budget_bytes = {};
  // Ascending ids. --cpu-layers: the CPU computes their experts.
  std::vector<int> cpu_layers = {};
  std::vector<int> pin_exempt_layers = {};  // --pin-exempt-layers: not page-locked
  // --expert-slots: of VRAM where a GPU is used, else of RAM, and the banks stay on disk.
  std::optional<int64_t> expert_slots = {};
  // Of banks that are neither page-locked nor in VRAM: all in RAM (--load read) or all on disk
  // (--load disk).
  std::optional<BankPlace> banks = {};
  std::optional<int64_t> kv_tokens = {};  // --kv-tokens: of all sequences together
  int n_sequences = 4;                    // --sequences: that keep a state of fixed size
  // What is left to the rest of the system.
  std::optional<uint64_t> ram_reserve_bytes = {};   // --ram-reserve
  std::optional<uint64_t> vram_reserve_bytes = {};  // --vram-reserve
  std::optional<double> hit_rate = {};  // --hit-rate: measured, of whichever slots there are

  bool operator==(const Limits&) const = default;
};

// Refuses what contradicts itself, the model or the machine, with the flags' names.
Result<void> check_limits(const ModelDemands& demands, const Machine& machine,
                          const Limits& limits);

// What limits make of a machine's budgets. A reserve unless given: a sixteenth of what is
// available, at most 4 GiB of RAM (a system that runs short kills processes) and 512 MiB of VRAM
// (the driver's own and what the desktop may open).
uint64_t ram_reserve(const Machine& machine, const Limits& limits);
uint64_t vram_reserve(const MachineGpu& gpu, const Limits& limits);
uint64_t ram_budget(const Machine& machine, const Limits& limits);
uint64_t vram_budget(const MachineGpu& gpu, const Limits& limits);
// The least of --pin-budget, the driver's quota and the memlock limit; the greatest number where
// none is known.
uint64_t pin_budget(const Machine& machine, const Limits& limits);

}  // namespace penstock
