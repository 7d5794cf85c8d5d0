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
  // lease: those that have one first, then the others in their order. A slot that is being filled
  // counts as one that has it.
  std::vector<Lease> lease(int layer, std::span<const int> experts);

  // Finds slots for those of the layer's `experts` that have none and will probably be asked for
  // next, at most n, and marks them as being filled. Slots of the others named here stay. No use is
  // noted: whether they are used shows when they are leased.
  std::vector<Lease> fill_ahead(int layer, std::span<const int> experts, size_t n);

  // Ends a lease, or the filling. The slot keeps what it holds, or holds nothing.
  void give_back(size_t slot, bool keeps);

  int64_t n_slots() const { return std::ssize(states_); }
  // Whether a slot holds the expert, or is being filled with it.
  bool has(int layer, int expert) const;
  bool is_leased(size_t slot) const { return states_[slot] == State::kLeased; }
  // Nothing where it is empty.
  std::optional<ExpertId> held_by(size_t slot) const;

 private:
  enum class State : uint8_t { kEmpty, kIdle, kFilling, kLeased };
  static constexpr int32_t kNoSlot = -1;

  size_t place_of(ExpertId id) const { return id.layer * n_experts_ + id.index; }
  int32_t& slot_of(ExpertId id) { return slot_of_[place_of(id)]; }
  bool is_idle(size_t slot) const {
    return states_[slot] == State::kEmpty || states_[slot] == State::kIdle;
  }
  void take(size_t slot, State state);
  // n idle slots: those that hold nothing, then those whose experts are worth least.
  std::vector<size_t> victims(size_t n);
  void put(ExpertId id, size_t slot, State state);

  size_t n_experts_;              // of a layer
  std::vector<int32_t> slot_of_;  // [layer, expert]: the slot that holds it, or kNoSlot
  std::vector<State> states_;     // of each slot
  std::vector<ExpertId> holds_;   // of each slot; anything where it is empty
  size_t n_idle_;                 // slots neither leased nor being filled, empty ones too
  std::unique_ptr<EvictionPolicy> policy_;
  // For their memory only.
  std::vector<double> worth_;
  std::vector<std::pair<double, size_t>> candidates_ = {};
};

}  // namespace penstock
