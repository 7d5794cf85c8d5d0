// What a machine has and how fast it is: a plain value, measured elsewhere or written by hand, that
// plans are made from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace penstock {

// Rates are in 1e9 bytes (GB) or 1e12 operations a second. A rate that nobody measured is absent:
// nothing is predicted from it.

// Whose description it is. A profile is believed only where all of this is the same; empty in a
// description that was written by hand.
struct MachineKey {
  std::string cpu = {};     // the processor's name
  std::string memory = {};  // how much, and what the board says of it
  std::string link = {};    // between RAM and each GPU
  std::string driver = {};  // the GPU driver's version
  std::string kernel = {};  // the operating system's

  bool operator==(const MachineKey&) const = default;
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit);
};

struct MachineRam {
  uint64_t total_bytes = 0;
  // That could be had now without swapping, cgroup limits counted; in JSON the total unless given.
  uint64_t available_bytes = 0;
  std::optional<uint64_t> memlock_bytes = {};  // that a process may lock; absent: all
  std::optional<uint64_t> swap_bytes = {};     // that RAM may be moved to; absent: not known
  std::optional<double> read_gb_s = {};        // of all threads together

  bool operator==(const MachineRam&) const = default;
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit);
};

struct MachineCpu {
  int n_cores = 0;
  int n_threads = 0;
  // Of weights that the decode kernels multiply, by format ("nvfp4"): all threads, weights in RAM.
  std::map<std::string, double> expert_gb_s = {};
  // Of keys and values that a generated token's attention reads: all threads, in RAM; absent: as
  // RAM is read.
  std::optional<double> attention_gb_s = {};
  std::optional<double> prefill_tflop_s = {};  // of products with a whole chunk

  bool operator==(const MachineCpu&) const = default;
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit);
};

struct MachineDisk {
  std::optional<double> sequential_gb_s = {};
  std::optional<double> random_gb_s = {};      // reads of an expert's size, a queue of them
  std::optional<double> small_reads_a_s = {};  // 4 KiB at random places, a queue of them

  bool operator==(const MachineDisk&) const = default;
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit);
};

struct MachineGpu {
  std::string name = {};
  uint64_t vram_total_bytes = 0;
  uint64_t vram_free_bytes = 0;  // in JSON the total unless given
  std::optional<double> vram_gb_s = {};
  std::optional<double> host_to_device_gb_s = {};  // copies from page-locked RAM
  std::optional<double> zero_copy_gb_s = {};       // kernels that read page-locked RAM
  std::optional<double> prefill_tflop_s = {};

  bool operator==(const MachineGpu&) const = default;
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit);
};

struct Machine {
  MachineKey key = {};
  MachineRam ram = {};
  MachineCpu cpu = {};
  // What the driver would page-lock in a bare process, an upper bound; absent: not known.
  std::optional<uint64_t> pin_quota_bytes = {};
  MachineDisk disk = {};
  std::vector<MachineGpu> gpus = {};

  bool operator==(const Machine&) const = default;
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit);
};

inline constexpr size_t kMostGpus = 16;

OrderedJson to_json(const Machine& machine);
// Every field is checked; one that is unknown is refused by name. `ram.total_bytes` must be there.
Result<Machine> machine_from_json(const Json& json);
Result<Machine> parse_machine(std::string_view text);

}  // namespace penstock
