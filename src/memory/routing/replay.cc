#include "memory/routing/replay.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "memory/forecast_policy.h"
#include "memory/routing/compared_policies.h"
#include "memory/slot_table.h"

namespace penstock {
namespace {

// Steps after which a use counts half for the frequency policy.
constexpr double kLfuHalfLifeSteps = 128.0;
// What the cache did before it had its policy from replays.
constexpr double kFormerHalfLifeWaves = 1024.0;

void replay_visit(int layer, std::span<const int> experts, SlotTable& slots, ReplayCounts& counts) {
  std::vector<int> left(experts.begin(), experts.end());
  while (!left.empty()) {
    const std::vector<SlotTable::Lease> wave = slots.lease(layer, left);
    std::vector<bool> is_member(left.size());
    for (const SlotTable::Lease& lease : wave) {
      is_member[lease.which] = true;
      counts.n_hits += lease.is_hit ? 1 : 0;
      slots.give_back(lease.slot, /*keeps=*/true);
    }
    counts.n_uses += std::ssize(wave);
    if (wave.size() == left.size()) return;
    std::vector<int> others;
    for (size_t i = 0; i < left.size(); ++i) {
      if (!is_member[i]) others.push_back(left[i]);
    }
    left = std::move(others);
  }
}

}  // namespace

std::string_view to_string(ReplayPolicy policy) {
  switch (policy) {
    case ReplayPolicy::kLru:
      return "LRU";
    case ReplayPolicy::kLfu:
      return "LFU";
    case ReplayPolicy::kResidentLfu:
      return "resident LFU";
    case ReplayPolicy::kRound:
      return "round";
    case ReplayPolicy::kForecast:
      return "forecast";
    case ReplayPolicy::kBelady:
      return "Belady";
  }
  return "";
}

std::unique_ptr<EvictionPolicy> make_policy(ReplayPolicy policy, const RoutingRecord& record) {
  const auto& [model, n_layers, n_experts, top_k] = record.shape();
  switch (policy) {
    case ReplayPolicy::kLru:
      return std::make_unique<LruPolicy>(n_layers, n_experts);
    case ReplayPolicy::kLfu:
      return std::make_unique<LfuPolicy>(n_layers, n_experts, kLfuHalfLifeSteps * n_layers,
                                         LfuPolicy::Memory::kAll);
    case ReplayPolicy::kResidentLfu:
      return std::make_unique<LfuPolicy>(n_layers, n_experts, kFormerHalfLifeWaves,
                                         LfuPolicy::Memory::kResidents);
    case ReplayPolicy::kRound:
      return std::make_unique<RoundPolicy>(n_layers);
    case ReplayPolicy::kForecast:
      return std::make_unique<ForecastPolicy>(n_layers, n_experts, top_k);
    case ReplayPolicy::kBelady:
      return std::make_unique<BeladyPolicy>(record);
  }
  return nullptr;
}

ReplayResult replay(const RoutingRecord& record, int64_t n_slots,
                    std::unique_ptr<EvictionPolicy> policy) {
  const RoutingRecord::Shape& shape = record.shape();
  SlotTable slots(shape.n_layers, shape.n_experts, n_slots, std::move(policy));
  ReplayResult result;
  for (const RoutingRecord::Step& step : record.steps()) {
    ReplayCounts& counts = step.is_prefill() ? result.prefill : result.decode;
    for (const RoutingRecord::Visit& visit : record.visits(step)) {
      replay_visit(visit.layer, record.experts(visit), slots, counts);
    }
  }
  return result;
}

}  // namespace penstock
