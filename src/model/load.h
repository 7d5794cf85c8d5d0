// Loads a checkpoint as a model ready to run, and says what was chosen.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "cpu/isa.h"
#include "cpu/precision.h"
#include "memory/expert_slots.h"
#include "memory/pin_store.h"
#include "memory/plan/prediction.h"
#include "memory/residency.h"
#include "memory/weights.h"
#include "model/gpu/gpu_target.h"
#include "model/language_model.h"

namespace penstock {

enum class LoadMode : uint8_t {
  kAuto,  // as planned: all is read where it fits, else routed experts stay on disk; where what is
          // left does not fit either, kMap
  kRead,  // weights are read into anonymous memory in huge OS pages: fastest to compute from
  kMap,   // the files are mapped: the page cache is the memory, and it can be given back
  kDisk,  // as kRead, but for the routed experts, which are read when they are needed
};

struct LoadOptions {
  LoadMode mode = LoadMode::kAuto;
  // In RAM, of experts that stay on disk; unless given as many as fit.
  ExpertSlots expert_slots = {};
  std::optional<uint64_t> ram_reserve_bytes = {};  // left to the rest of the system (plan/limits.h)
  // By layer, where the banks go instead of where the plan has them: kPinned, kLocked, kPageable or
  // kDisk. Not with kMap.
  std::vector<Residency> banks = {};
  PinStore* pins = nullptr;  // for kPinned; outlives the model
  bool verify = false;       // all of a pack's checksums, also those of weights that are not read
  bool interleave = true;    // weights that are read, where the class `fast` has use for it
  int n_threads = 0;  // 0: one for each core that this process may use and its cgroup pays for
  Precision precision = Precision::kExact;
  std::optional<Isa> isa = {};  // absent: the best, or what PENSTOCK_CPU_ISA says
  // Of the KV cache, all sequences together; 0: as planned, or with kMap the context length within
  // a quarter of free RAM.
  int64_t kv_tokens = 0;
  std::optional<GpuTarget> gpu =
      {};  // all of the model goes there; mode, slots and banks mean nothing
  ProgressFn progress = {};
};

// What load_model chose: printed once at start.
struct LoadReport {
  LoadMode mode = LoadMode::kMap;
  bool interleaved = false;
  uint64_t weight_bytes = 0;  // in memory
  uint64_t pinned_bytes = 0;  // of banks
  uint64_t locked_bytes = 0;
  std::optional<Prediction> prediction = {};  // the plan's, where there was one
  WeightLoading loading = {};
  int64_t n_expert_slots = 0;  // of so many experts, where they stay on disk
  int64_t n_experts = 0;
  uint64_t expert_slot_bytes = 0;  // of all slots
  // Weights of a pack are used that nothing here compares with their checksums.
  bool is_unverified = false;
  std::string gpu = {};  // where the model runs; empty: on the CPU, as the next two say
  Isa isa = Isa::kScalar;
  Precision precision = Precision::kExact;
  int n_threads = 0;
  int n_cpus = 0;  // that the process may use, for at most as many threads
  int64_t kv_tokens = 0;
  uint64_t kv_bytes = 0;
  std::vector<std::string> notes =
      {};  // one line each: what was cut down, and which flag decides it
};

struct LoadedModel {
  std::unique_ptr<LanguageModel> model;
  LoadReport report;
};

Result<LoadedModel> load_model(const Checkpoint& checkpoint, const LoadOptions& options);

}  // namespace penstock
