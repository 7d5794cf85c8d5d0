// Which expert loses its slot when another needs one: what the expert cache asks, and the replay of
// recorded routing.
#pragma once

#include <span>

#include "memory/expert_layout.h"

namespace penstock {

// Deterministic. One thread.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // A layer is about to compute with these of its experts, each named once; then victims are chosen
  // for those that have no slot.
  virtual void use(int layer, std::span<const int> experts) = 0;

  // What it is worth to keep each of them until its layer comes round again. The least goes first.
  virtual void rate(std::span<const ExpertId> experts, std::span<double> worth) const = 0;

  // Another has its slot now.
  virtual void evicted(ExpertId /*id*/) {}
};

}  // namespace penstock
