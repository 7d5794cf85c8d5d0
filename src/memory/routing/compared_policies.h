// The policies that the shipped one is held against when recorded routing is replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "memory/eviction_policy.h"
#include "memory/routing/routing_record.h"

namespace penstock {

// The least recently used goes first.
class LruPolicy final : public EvictionPolicy {
 public:
  LruPolicy(int n_layers, int n_experts);
  void use(int layer, std::span<const int> experts) override;
  void rate(std::span<const ExpertId> experts, std::span<double> worth) const override;

 private:
  size_t n_experts_;
  std::vector<int64_t> last_use_;  // [layer, expert]: the number of its wave
  int64_t wave_ = 0;
};

// The least frequently used goes first; a use counts half after a while.
class LfuPolicy final : public EvictionPolicy {
 public:
  enum class Memory : uint8_t {
    kAll,        // of all uses
    kResidents,  // of those since the expert got its slot: what the cache did before
  };
  // half_life: in waves, of which each layer has one in each step.
  LfuPolicy(int n_layers, int n_experts, double half_life, Memory memory);
  void use(int layer, std::span<const int> experts) override;
  void rate(std::span<const ExpertId> experts, std::span<double> worth) const override;
  void evicted(ExpertId id) override;

 private:
  size_t n_experts_;
  double half_life_;
  Memory memory_;
  // [layer, expert]: log2 of the sum over its uses of 2^(wave / half_life). Decay changes all sums
  // by one factor, and so none of them has to be touched for it.
  std::vector<double> heat_;
  int64_t wave_ = 0;
};

// The one whose layer is farthest ahead goes first: recency, for layers that come round in order.
class RoundPolicy final : public EvictionPolicy {
 public:
  explicit RoundPolicy(int n_layers) : n_layers_(n_layers) {}
  void use(int layer, std::span<const int> /*experts*/) override { current_ = layer; }
  void rate(std::span<const ExpertId> experts, std::span<double> worth) const override;

 private:
  int n_layers_;
  int current_ = 0;
};

// The one that is used again last goes first, as only somebody can tell who knows what comes:
// Belady's optimum. Nothing does better on a record whose visits all fit into the slots.
class BeladyPolicy final : public EvictionPolicy {
 public:
  // Of waves that bring the record's visits in order; it outlives the policy.
  explicit BeladyPolicy(const RoutingRecord& record);
  void use(int layer, std::span<const int> experts) override;
  void rate(std::span<const ExpertId> experts, std::span<double> worth) const override;

 private:
  const RoutingRecord* record_;
  size_t n_experts_;
  std::vector<int64_t> next_of_use_;  // of each use in the record: the visit that uses it again
  std::vector<int64_t> next_;         // [layer, expert]: the visit that uses it next, as of now
  size_t visit_ = 0;
  size_t n_left_ = 0;  // of the visit's experts: those that no wave brought yet
};

}  // namespace penstock
