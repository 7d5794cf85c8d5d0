#include "cli/plan/plan_input.h"

#include <charconv>

#include "base/units.h"
#include "memory/expert_slots.h"
#include "memory/layer_set.h"
#include "memory/profile/machine_profile.h"
#include "memory/profile/this_machine.h"
#include "os/environment.h"
#include "os/file.h"

namespace penstock {
namespace {

constexpr uint64_t kMostDescriptionBytes = kMiB;

bool is_description(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".json" && std::filesystem::is_regular_file(path, ignored);
}

Result<ModelDemands> read_demands(const PlanArguments& arguments, std::vector<std::string>& notes) {
  if (!is_description(arguments.model)) {
    PENSTOCK_ASSIGN(const Checkpoint checkpoint, open_checkpoint(arguments.model));
    notes.insert(notes.end(), checkpoint.notes.begin(), checkpoint.notes.end());
    return demands_of(checkpoint, arguments.kv_format);
  }
  PENSTOCK_ASSIGN(const std::string text, read_whole_file(arguments.model, kMostDescriptionBytes));
  auto demands = parse_demands(text);
  if (!demands) return std::unexpected(demands.error().in(arguments.model.string()));
  return demands;
}

// A description, or another machine's profile, which has one in it.
Result<Machine> read_machine(const std::filesystem::path& path, std::vector<std::string>& notes) {
  if (path.empty()) {
    ThisMachine here = this_machine();
    notes.push_back(std::move(here.note));
    return std::move(here.machine);
  }
  PENSTOCK_ASSIGN(const std::string text, read_whole_file(path, kMostDescriptionBytes));
  if (auto profile = parse_profile(text)) return std::move(profile->machine);
  auto machine = parse_machine(text);
  if (!machine) return std::unexpected(machine.error().in(path.string()));
  return machine;
}

Result<std::optional<uint64_t>> read_size(std::string_view flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto size = parse_bytes(text);
  if (!size) return std::unexpected(size.error().in(flag));
  return *size;
}

// --pin-budget, or what the environment says. PENSTOCK_NO_PINNED=1 is a budget of nothing.
Result<std::optional<uint64_t>> read_pin_budget(const std::string& text) {
  PENSTOCK_ASSIGN(auto budget, read_size("--pin-budget", text));
  if (!budget) {
    const std::string from_environment(environment_variable("PENSTOCK_PIN_BUDGET_GB"));
    PENSTOCK_ASSIGN(budget, read_size("PENSTOCK_PIN_BUDGET_GB", from_environment));
  }
  if (environment_variable("PENSTOCK_NO_PINNED") != "1") return budget;
  if (!text.empty() && *budget > 0) {
    return fail(ErrorKind::kInvalidArgument,
                "--pin-budget {} and PENSTOCK_NO_PINNED=1 contradict each other", text);
  }
  return 0;
}

Result<void> read_gpu(const std::string& text, Limits& limits) {
  if (text.empty() || text == "auto") return {};
  if (text == "none") {
    limits.use_gpu = false;
    return {};
  }
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return fail(ErrorKind::kInvalidArgument, "--gpu {}: expected auto, none or a GPU's number",
                text);
  }
  limits.gpu = index;
  return {};
}

Result<std::vector<int>> read_layers(std::string_view flag, const std::string& text, int n_layers,
                                     std::vector<std::string>& notes) {
  if (text.empty()) return std::vector<int>{};
  PENSTOCK_ASSIGN(const LayerSelection chosen, select_layers(text, n_layers, flag));
  if (!chosen.warning.empty()) notes.push_back(chosen.warning);
  std::vector<int> ids;
  for (int layer = 0; layer < n_layers; ++layer) {
    if (chosen.layers.contains(layer)) ids.push_back(layer);
  }
  return ids;
}

Result<Limits> read_limits(const PlanArguments& arguments, const ModelDemands& demands,
                           std::vector<std::string>& notes) {
  Limits limits;
  PENSTOCK_TRY(read_gpu(arguments.gpu, limits));
  PENSTOCK_ASSIGN(limits.pin_budget_bytes, read_pin_budget(arguments.pin_budget));
  PENSTOCK_ASSIGN(limits.ram_reserve_bytes, read_size("--ram-reserve", arguments.ram_reserve));
  PENSTOCK_ASSIGN(limits.vram_reserve_bytes, read_size("--vram-reserve", arguments.vram_reserve));
  PENSTOCK_ASSIGN(limits.cpu_layers,
                  read_layers("--cpu-layers", arguments.cpu_layers, demands.n_layers(), notes));
  PENSTOCK_ASSIGN(
      limits.pin_exempt_layers,
      read_layers("--pin-exempt-layers", arguments.pin_exempt_layers, demands.n_layers(), notes));
  if (!arguments.expert_slots.empty()) {
    PENSTOCK_ASSIGN(const ExpertSlots slots, parse_expert_slots(arguments.expert_slots));
    limits.expert_slots = slots.of(demands.n_experts());
  }
  limits.kv_tokens = arguments.kv_tokens;
  limits.n_sequences = arguments.n_sequences.value_or(limits.n_sequences);
  limits.hit_rate = arguments.hit_rate;
  return limits;
}

}  // namespace

Result<PlanInput> read_plan_input(const PlanArguments& arguments) {
  PlanInput input;
  PENSTOCK_ASSIGN(input.demands, read_demands(arguments, input.notes));
  PENSTOCK_ASSIGN(input.machine, read_machine(arguments.machine, input.notes));
  PENSTOCK_ASSIGN(input.limits, read_limits(arguments, input.demands, input.notes));
  PENSTOCK_TRY(check_limits(input.demands, input.machine, input.limits));
  return input;
}

}  // namespace penstock
