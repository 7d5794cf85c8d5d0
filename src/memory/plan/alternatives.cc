#include "memory/plan/alternatives.h"

#include <algorithm>
#include <utility>

#include "base/integers.h"
#include "base/units.h"

namespace penstock {
namespace {

class Collector {
 public:
  Collector(const Plan& plan, const ModelDemands& demands, const Machine& machine,
            const Limits& limits)
      : plan_(plan), demands_(demands), machine_(machine), limits_(limits) {}

  std::vector<Alternative> all() {
    without_gpu();
    without_pins();
    less_context();
    experts_on_cpu();
    more_ram();
    more_vram();
    return std::move(found_);
  }

 private:
  void without_gpu() {
    if (!plan_.gpu || limits_.gpu || limits_.expert_slots) return;
    Limits limits = limits_;
    limits.use_gpu = false;
    add("--gpu none", machine_, limits);
  }

  void without_pins() {
    if (plan_.pinned_bytes == 0) return;
    Limits limits = limits_;
    limits.pin_budget_bytes = 0;
    add("--pin-budget 0", machine_, limits);
  }

  // Where the KV cache has what experts could have.
  void less_context() {
    constexpr int64_t kShortContext = 8192;
    const bool lacks_room = plan_.n_banks(Residency::kDisk) > 0 || plan_.vram_slots > 0 ||
                            (plan_.gpu && plan_.n_banks(Residency::kLocked) > 0);
    if (!lacks_room || limits_.kv_tokens || plan_.kv_tokens <= kShortContext) return;
    Limits limits = limits_;
    limits.kv_tokens = kShortContext;
    add(fmt::format("--kv-tokens {}", kShortContext), machine_, limits);
  }

  void experts_on_cpu() {
    if (!plan_.gpu || limits_.expert_slots || !limits_.cpu_layers.empty()) return;
    if (demands_.n_experts() == 0) return;
    Limits limits = limits_;
    for (int i = 0; i < demands_.n_layers(); ++i) limits.cpu_layers.push_back(i);
    add("--cpu-layers all", machine_, limits);
  }

  // So much that no bank is left on disk.
  void more_ram() {
    const uint64_t on_disk = plan_.bytes(Place::kDisk, PlanItem::kBanks);
    if (on_disk == 0 || (!plan_.gpu && limits_.expert_slots)) return;
    const uint64_t in_slots = plan_.bytes(Place::kRam, PlanItem::kSlots);
    // What is not for banks grows too: a reserve and a KV cache that are shares of the whole.
    const uint64_t missing = on_disk - std::min(on_disk, in_slots);
    for (uint64_t gib = ceil_div(missing, kGiB); gib <= 2 * ceil_div(on_disk, kGiB) + 1; ++gib) {
      Machine machine = machine_;
      machine.ram.total_bytes += gib * kGiB;
      machine.ram.available_bytes += gib * kGiB;
      const auto plan = make_plan(demands_, machine, limits_);
      if (!plan || plan->n_banks(Residency::kDisk) > 0) continue;
      add(fmt::format("{} GiB more RAM", gib), machine, limits_);
      return;
    }
  }

  void more_vram() {
    constexpr uint64_t kMoreGib = 8;  // the step from one card to the next
    const bool would_use_it = plan_.gpu && !limits_.expert_slots && demands_.n_experts() > 0 &&
                              std::cmp_less(plan_.n_banks(Residency::kVram), plan_.layers.size());
    if (!would_use_it) return;
    Machine machine = machine_;
    MachineGpu& gpu = machine.gpus[static_cast<size_t>(*plan_.gpu)];
    gpu.vram_total_bytes += kMoreGib * kGiB;
    gpu.vram_free_bytes += kMoreGib * kGiB;
    add(fmt::format("{} GiB more VRAM", kMoreGib), machine, limits_);
  }

  void add(std::string change, const Machine& machine, const Limits& limits) {
    Alternative alternative = {.change = std::move(change)};
    auto plan = make_plan(demands_, machine, limits);
    if (plan) {
      alternative.plan = *std::move(plan);
    } else {
      alternative.shortfall = plan.error().sentence();
    }
    found_.push_back(std::move(alternative));
  }

  const Plan& plan_;
  const ModelDemands& demands_;
  const Machine& machine_;
  const Limits& limits_;
  std::vector<Alternative> found_ = {};
};

}  // namespace

std::vector<Alternative> alternatives_to(const Plan& plan, const ModelDemands& demands,
                                         const Machine& machine, const Limits& limits) {
  return Collector(plan, demands, machine, limits).all();
}

}  // namespace penstock
