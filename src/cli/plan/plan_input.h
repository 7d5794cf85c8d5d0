// What a plan is made from, as the command line names it: a model, a machine, limits.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "memory/plan/demands.h"
#include "memory/plan/limits.h"
#include "memory/plan/machine.h"

namespace penstock {

// As people typed it; empty or absent: not given.
struct PlanArguments {
  std::filesystem::path model = {};
  std::filesystem::path machine = {};
  KvFormat kv_format = KvFormat::kBF16;
  std::string gpu = {};
  std::string pin_budget = {};
  std::string pin_exempt_layers = {};
  std::string cpu_layers = {};
  std::string expert_slots = {};
  std::string ram_reserve = {};
  std::string vram_reserve = {};
  std::optional<int64_t> kv_tokens = {};
  std::optional<int> n_sequences = {};
  std::optional<double> hit_rate = {};
};

struct PlanInput {
  ModelDemands demands = {};
  Machine machine = {};
  Limits limits = {};
  std::vector<std::string> notes = {};  // what was clamped or ignored
};

// Reads headers, descriptions and the environment; weights stay where they are.
Result<PlanInput> read_plan_input(const PlanArguments& arguments);

}  // namespace penstock
