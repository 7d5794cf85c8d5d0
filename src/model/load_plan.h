// Decides how a checkpoint is loaded before anything is allocated: by the plan for this machine as
// it is now, within what the user has decided.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "memory/kv_store.h"
#include "memory/plan/prediction.h"
#include "memory/residency.h"
#include "model/load.h"

namespace penstock {

struct LoadPlan {
  bool map_files = false;                 // then there are no banks
  std::vector<Residency> banks = {};      // by layer; those of dense layers mean nothing
  std::optional<int64_t> slots = {};      // for experts on disk, as the user has them
  uint64_t slots_bytes = 0;               // of RAM for slots, where the user has no number
  std::optional<int64_t> kv_tokens = {};  // absent: what free RAM allows once weights are loaded
  std::optional<Prediction> prediction = {};
  std::vector<std::string> notes =
      {};  // what is not as one would wish, and the flag that decides it
};

// An error where the options contradict each other or the model, or ask for what does not fit; with
// LoadMode::kAuto what does not fit is mapped.
Result<LoadPlan> plan_load(const Checkpoint& checkpoint, const LoadOptions& options,
                           KvFormat kv_format);

}  // namespace penstock
