#include "memory/plan/plan_notes.h"

#include <algorithm>

#include "base/units.h"

namespace penstock {
namespace {

std::string count(int n, int of, std::string_view what) {
  return fmt::format("{} of {} {}", n, of, what);
}

int n_banks(const Plan& plan) {
  return static_cast<int>(std::ranges::count_if(
      plan.layers, [](const PlannedLayer& layer) { return layer.bank.has_value(); }));
}

std::string gpu_note(const Plan& plan, const Machine& machine, const Limits& limits,
                     const std::optional<Shortfall>& left_out) {
  if (plan.gpu || machine.gpus.empty() || !limits.use_gpu) return "";
  if (!left_out) return "no GPU is used: the CPU alone is predicted to be faster";
  return fmt::format("no GPU is used: {}", left_out->sentence());
}

// What kept banks from being page-locked that would have been.
std::string pin_note(const Plan& plan, const Machine& machine, const Limits& limits) {
  const int n_unpinned = plan.n_banks(Residency::kLocked) + plan.n_banks(Residency::kPageable);
  const uint64_t budget = plan.pin_budget;
  const bool is_unlimited = budget == pin_budget(Machine{}, Limits{});
  if (!plan.gpu || n_unpinned == 0 || is_unlimited) return "";
  const std::string head = count(n_unpinned, n_banks(plan), "banks are in RAM but not page-locked");
  if (limits.pin_budget_bytes == budget) {
    return fmt::format("{}: --pin-budget is {}", head, format_bytes(budget));
  }
  if (machine.ram.memlock_bytes == budget) {
    return fmt::format("{}: the memlock limit is {} (ulimit -l raises it)", head,
                       format_bytes(budget));
  }
  return fmt::format("{}: the driver's quota is {}", head, format_bytes(budget));
}

std::string lock_note(const Plan& plan, const Machine& machine) {
  const int n = plan.n_banks(Residency::kPageable);
  if (n == 0 || !machine.ram.memlock_bytes || machine.ram.swap_bytes == 0) return "";
  return fmt::format(
      "{}: the system may swap them out, for the memlock limit is {} (ulimit -l raises it)",
      count(n, n_banks(plan), "banks are pageable"), format_bytes(*machine.ram.memlock_bytes));
}

std::string disk_note(const ModelDemands& demands, const Plan& plan) {
  const int n = plan.n_banks(Residency::kDisk);
  if (n == 0) return "";
  const uint64_t banks = plan.bytes(Place::kDisk, PlanItem::kBanks);
  return fmt::format("{} ({}) stay on disk, with room in RAM for {} of {} experts",
                     count(n, n_banks(plan), "banks"), format_bytes(banks),
                     format_count(static_cast<uint64_t>(plan.ram_slots)),
                     format_count(static_cast<uint64_t>(demands.n_experts())));
}

std::string kv_note(const ModelDemands& demands, const Limits& limits, const Plan& plan) {
  if (limits.kv_tokens || plan.kv_tokens >= demands.context_length) return "";
  return fmt::format("the KV cache holds {} of the model's {} tokens; --kv-tokens sets it",
                     format_count(static_cast<uint64_t>(plan.kv_tokens)),
                     format_count(static_cast<uint64_t>(demands.context_length)));
}

std::string rows_note(const ModelDemands& demands, const Plan& plan) {
  if (plan.rows != RowBackend::kDirect) return "";
  return fmt::format("the row tables ({}) stay on disk; each token reads {} of their rows",
                     format_bytes(demands.row_table_bytes), demands.rows_a_token);
}

}  // namespace

std::vector<std::string> load_notes_of(const ModelDemands& demands, const Machine& machine,
                                       const Limits& limits, const Plan& plan) {
  std::vector<std::string> notes = {lock_note(plan, machine), kv_note(demands, limits, plan),
                                    rows_note(demands, plan)};
  std::erase(notes, "");
  return notes;
}

std::vector<std::string> notes_of(const ModelDemands& demands, const Machine& machine,
                                  const Limits& limits, const Plan& plan,
                                  const std::optional<Shortfall>& left_out) {
  std::vector<std::string> notes = {gpu_note(plan, machine, limits, left_out),
                                    pin_note(plan, machine, limits), disk_note(demands, plan)};
  std::erase(notes, "");
  const auto others = load_notes_of(demands, machine, limits, plan);
  notes.insert(notes.end(), others.begin(), others.end());
  return notes;
}

}  // namespace penstock
