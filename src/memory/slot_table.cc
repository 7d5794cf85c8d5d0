#include "memory/slot_table.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace penstock {
namespace {

ExpertId id_of(int layer, int expert) {
  return {.layer = static_cast<uint16_t>(layer), .index = static_cast<uint16_t>(expert)};
}

}  // namespace

SlotTable::SlotTable(int n_layers, int n_experts, int64_t n_slots,
                     std::unique_ptr<EvictionPolicy> policy)
    : n_experts_(static_cast<size_t>(n_experts)),
      slot_of_(static_cast<size_t>(n_layers) * n_experts_, kNoSlot),
      states_(static_cast<size_t>(n_slots), State::kEmpty),
      holds_(states_.size()),
      n_idle_(states_.size()),
      policy_(std::move(policy)),
      worth_(states_.size()) {
  PENSTOCK_CHECK(n_slots > 0, "a table of no slots");
}

std::vector<SlotTable::Lease> SlotTable::lease(int layer, std::span<const int> experts) {
  std::vector<Lease> leases;
  std::vector<size_t> missing;
  for (size_t which = 0; which < experts.size(); ++which) {
    const int32_t slot = slot_of(id_of(layer, experts[which]));
    if (slot == kNoSlot) {
      missing.push_back(which);
      continue;
    }
    take(static_cast<size_t>(slot), State::kLeased);
    leases.push_back({which, static_cast<size_t>(slot), /*is_hit=*/true});
  }
  missing.resize(std::min(missing.size(), n_idle_));

  std::vector<int> wave;
  for (const Lease& hit : leases) wave.push_back(experts[hit.which]);
  for (const size_t which : missing) wave.push_back(experts[which]);
  policy_->use(layer, wave);

  const std::vector<size_t> slots = victims(missing.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    put(id_of(layer, experts[missing[i]]), slots[i], State::kLeased);
    leases.push_back({missing[i], slots[i], /*is_hit=*/false});
  }
  return leases;
}

std::vector<SlotTable::Lease> SlotTable::fill_ahead(int layer, std::span<const int> experts,
                                                    size_t n) {
  std::vector<size_t> missing;
  std::vector<std::pair<size_t, State>> kept;  // for as long as victims are chosen
  for (size_t which = 0; which < experts.size(); ++which) {
    const int32_t slot = slot_of(id_of(layer, experts[which]));
    if (slot == kNoSlot) {
      missing.push_back(which);
    } else if (is_idle(static_cast<size_t>(slot))) {
      kept.emplace_back(slot, states_[static_cast<size_t>(slot)]);
      take(static_cast<size_t>(slot), State::kLeased);
    }
  }
  missing.resize(std::min({missing.size(), n, n_idle_}));
  const std::vector<size_t> slots = victims(missing.size());
  for (const auto& [slot, state] : kept) {
    states_[slot] = state;
    ++n_idle_;
  }
  std::vector<Lease> filled;
  for (size_t i = 0; i < slots.size(); ++i) {
    put(id_of(layer, experts[missing[i]]), slots[i], State::kFilling);
    filled.push_back({missing[i], slots[i], /*is_hit=*/false});
  }
  return filled;
}

void SlotTable::take(size_t slot, State state) {
  PENSTOCK_CHECK(!is_leased(slot), "an expert is leased twice");
  if (is_idle(slot)) --n_idle_;
  states_[slot] = state;
}

void SlotTable::give_back(size_t slot, bool keeps) {
  PENSTOCK_CHECK(!is_idle(slot), "a slot is given back that nobody has");
  ++n_idle_;
  states_[slot] = keeps ? State::kIdle : State::kEmpty;
  if (!keeps) slot_of(holds_[slot]) = kNoSlot;
}

bool SlotTable::has(int layer, int expert) const {
  return slot_of_[place_of(id_of(layer, expert))] != kNoSlot;
}

std::optional<ExpertId> SlotTable::held_by(size_t slot) const {
  return states_[slot] == State::kEmpty ? std::nullopt : std::optional(holds_[slot]);
}

std::vector<size_t> SlotTable::victims(size_t n) {
  if (n == 0) return {};
  policy_->rate(holds_, worth_);
  candidates_.clear();
  for (size_t slot = 0; slot < states_.size(); ++slot) {
    if (!is_idle(slot)) continue;
    const bool is_empty = states_[slot] == State::kEmpty;
    candidates_.emplace_back(is_empty ? -std::numeric_limits<double>::infinity() : worth_[slot],
                             slot);
  }
  std::ranges::partial_sort(candidates_, candidates_.begin() + static_cast<std::ptrdiff_t>(n));
  std::vector<size_t> slots;
  for (size_t i = 0; i < n; ++i) slots.push_back(candidates_[i].second);
  return slots;
}

void SlotTable::put(ExpertId id, size_t slot, State state) {
  if (states_[slot] == State::kIdle) {
    slot_of(holds_[slot]) = kNoSlot;
    policy_->evicted(holds_[slot]);
  }
  holds_[slot] = id;
  take(slot, state);
  slot_of(id) = static_cast<int32_t>(slot);
}

}  // namespace penstock
