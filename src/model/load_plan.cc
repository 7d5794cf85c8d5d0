#include "model/load_plan.h"

#include <algorithm>
#include <utility>

#include "memory/plan/demands.h"
#include "memory/plan/plan.h"
#include "memory/plan/plan_notes.h"
#include "memory/profile/this_machine.h"

namespace penstock {
namespace {

std::string_view flag_of(LoadMode mode) {
  switch (mode) {
    case LoadMode::kAuto:
      return "--load auto";
    case LoadMode::kRead:
      return "--load read";
    case LoadMode::kMap:
      return "--load map";
    case LoadMode::kDisk:
      return "--load disk";
  }
  return "";
}

// What the options say together, and what the model allows.
Result<LoadMode> mode_of(const Checkpoint& checkpoint, const LoadOptions& options) {
  LoadMode mode = options.mode;
  if (options.expert_slots.is_given()) {
    if (mode != LoadMode::kAuto && mode != LoadMode::kDisk) {
      return fail(ErrorKind::kInvalidArgument,
                  "--expert-slots is for experts that stay on disk, which {} does not leave there",
                  flag_of(mode));
    }
    mode = LoadMode::kDisk;
  }
  if (mode == LoadMode::kDisk && checkpoint.spec.moe.n_experts == 0) {
    return fail(ErrorKind::kInvalidArgument,
                "{} has no routed experts that could stay on disk (--load disk)",
                checkpoint.path.string());
  }
  return mode;
}

Limits limits_of(const ModelDemands& demands, const LoadOptions& options, LoadMode mode) {
  Limits limits = {.use_gpu = false, .ram_reserve_bytes = options.ram_reserve_bytes};
  if (mode == LoadMode::kRead) limits.banks = BankPlace::kRam;
  if (mode == LoadMode::kDisk) limits.banks = BankPlace::kDisk;
  if (options.kv_tokens > 0) limits.kv_tokens = options.kv_tokens;
  if (options.expert_slots.is_given()) {
    // The cache does with fewer slots than a token has experts, in waves; a plan does not.
    int64_t least = 1;
    for (const BankDemand& bank : demands.layers) least = std::max<int64_t>(least, bank.top_k);
    limits.expert_slots =
        std::clamp(options.expert_slots.of(demands.n_experts()), least, demands.n_experts());
  }
  return limits;
}

LoadPlan load_plan_of(const Plan& plan, std::vector<std::string> notes) {
  LoadPlan load = {.slots_bytes = static_cast<uint64_t>(plan.ram_slots) * plan.slot_bytes,
                   .kv_tokens = plan.kv_tokens,
                   .prediction = plan.prediction,
                   .notes = std::move(notes)};
  for (const PlannedLayer& layer : plan.layers) {
    load.banks.push_back(layer.bank.value_or(Residency::kPageable));
  }
  return load;
}

}  // namespace

Result<LoadPlan> plan_load(const Checkpoint& checkpoint, const LoadOptions& options,
                           KvFormat kv_format) {
  PENSTOCK_ASSIGN(const LoadMode mode, mode_of(checkpoint, options));
  if (mode == LoadMode::kMap) return LoadPlan{.map_files = true};
  PENSTOCK_ASSIGN(const ModelDemands demands, demands_of(checkpoint, kv_format));
  std::optional<int64_t> slots;
  if (options.expert_slots.is_given()) slots = options.expert_slots.of(demands.n_experts());
  if (!options.banks.empty()) return LoadPlan{.banks = options.banks, .slots = slots};

  const Limits limits = limits_of(demands, options, mode);
  const Machine machine = this_machine().machine;
  PENSTOCK_TRY(check_limits(demands, machine, limits));
  const auto plan = make_plan(demands, machine, limits);
  if (plan) {
    LoadPlan load = load_plan_of(*plan, load_notes_of(demands, machine, limits, *plan));
    load.slots = slots;
    return load;
  }
  const std::string does_not_fit =
      fmt::format("{} does not fit: {}", demands.name, plan.error().sentence());
  if (mode == LoadMode::kAuto) {
    return LoadPlan{.map_files = true,
                    .notes = {fmt::format("{}; so its files are mapped, and read again as the page "
                                          "cache loses them",
                                          does_not_fit)}};
  }
  return std::unexpected(Error{.kind = ErrorKind::kExhausted,
                               .message = fmt::format("{}: {}", flag_of(mode), does_not_fit),
                               .hint = mode == LoadMode::kRead ? "--load auto" : plan.error().fix});
}

}  // namespace penstock
