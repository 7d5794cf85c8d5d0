// Which expert is in which slot, and whose slot goes to another: the expert cache without its
// bytes, which the replay of recorded routing runs alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "memory/eviction_policy.h"
#include "memory/expert_layout.h"

namespace penstock {

// One thread at a time.
class SlotTable {
 public:
  // An expert of a wave, and the slot that is leased to it.
  struct Lease {
    size_t which = 0;  // in the experts asked for
    size_t slot = 0;
    bool is_hit = false;  // else what the slot holds has to be read
  };

  // At least one slot.
  SlotTable(int n_layers, int n_experts, int64_t n_slots, std::unique_ptr<EvictionPolicy> policy);

  // Leases slots to as many of the layer's `experts`, each named once, as there are slots without a
  // lease: those that have one first, then the others in their order.
  std::vector<Lease> lease(int layer, std::span<const int> experts);

  // Ends a lease. The slot keeps what it holds, or holds nothing.
  void give_back(size_t slot, bool keeps);

  int64_t n_slots() const { return std::ssize(states_); }
  bool is_leased(size_t slot) const { return states_[slot] == State::kLeased; }
  // Nothing where it is empty.
  std::optional<ExpertId> held_by(size_t slot) const;

 private:
  enum class State : uint8_t { kEmpty, kIdle, kLeased };
  static constexpr int32_t kNoSlot = -1;

  int32_t& slot_of(ExpertId id) { return slot_of_[id.layer * n_experts_ + id.index]; }
  // n slots without a lease: those that hold nothing, then those whose experts are worth least.
  std::vector<size_t> victims(size_t n);
  void put(ExpertId id, size_t slot);

  size_t n_experts_;              // of a layer
  std::vector<int32_t> slot_of_;  // [layer, expert]: the slot that holds it, or kNoSlot
  std::vector<State> states_;     // of each slot
  std::vector<ExpertId> holds_;   // of each slot; anything where it is empty
  size_t n_idle_;                 // slots without a lease, empty ones too
  std::unique_ptr<EvictionPolicy> policy_;
  // For their memory only.
  std::vector<double> worth_;
  std::vector<std::pair<double, size_t>> candidates_ = {};
};

}  // namespace penstock
