// How often recorded routing would have found its experts in their slots: cache policies without a
// model, for `penstock plan --replay`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "memory/eviction_policy.h"
#include "memory/routing/routing_record.h"

namespace penstock {

enum class ReplayPolicy : uint8_t { kLru, kLfu, kResidentLfu, kRound, kForecast, kBelady };
inline constexpr std::array kReplayPolicies = {ReplayPolicy::kLru,         ReplayPolicy::kLfu,
                                               ReplayPolicy::kResidentLfu, ReplayPolicy::kRound,
                                               ReplayPolicy::kForecast,    ReplayPolicy::kBelady};
std::string_view to_string(ReplayPolicy policy);

// For one replay of the record, which outlives it.
std::unique_ptr<EvictionPolicy> make_policy(ReplayPolicy policy, const RoutingRecord& record);

struct ReplayCounts {
  int64_t n_uses = 0;
  int64_t n_hits = 0;

  double hit_rate() const {
    return n_uses > 0 ? static_cast<double>(n_hits) / static_cast<double>(n_uses) : 0.0;
  }
  bool operator==(const ReplayCounts&) const = default;
};

// Steps that have tokens of prompts, and those that have none.
struct ReplayResult {
  ReplayCounts prefill = {};
  ReplayCounts decode = {};

  bool operator==(const ReplayResult&) const = default;
};

// All steps in order, from empty slots, each visit in as many waves as the slots need: what the
// expert cache would have counted.
ReplayResult replay(const RoutingRecord& record, int64_t n_slots,
                    std::unique_ptr<EvictionPolicy> policy);

}  // namespace penstock
