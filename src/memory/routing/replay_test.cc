#include "memory/routing/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "memory/routing/made_up_routing_test.h"

namespace penstock {
namespace {

int64_t n_hits(const ReplayResult& result) { return result.prefill.n_hits + result.decode.n_hits; }

ReplayResult replay_with(ReplayPolicy policy, const RoutingRecord& record, int64_t n_slots) {
  return replay(record, n_slots, make_policy(policy, record));
}

// The most hits that any choice of victims gives: over all sets of experts that can be in slots
// after each visit.
int64_t most_hits(const RoutingRecord& record, int n_slots) {
  const int n = record.shape().n_layers * record.shape().n_experts;
  std::vector<int64_t> best(size_t{1} << n, -1);  // of each set, as bits
  best[0] = 0;
  for (const RoutingRecord::Visit& visit : record.visits()) {
    uint32_t wanted = 0;
    for (const int e : record.experts(visit)) {
      wanted |= 1U << (visit.layer * record.shape().n_experts + e);
    }
    std::vector<int64_t> after(best.size(), -1);
    for (uint32_t held = 0; held < best.size(); ++held) {
      if (best[held] < 0) continue;
      const int64_t hits = best[held] + std::popcount(held & wanted);
      const uint32_t others = held & ~wanted;
      for (uint32_t kept = others;; kept = (kept - 1) & others) {  // all its subsets
        if (std::popcount(kept | wanted) <= n_slots) {
          after[kept | wanted] = std::max(after[kept | wanted], hits);
        }
        if (kept == 0) break;
      }
    }
    best = std::move(after);
  }
  return *std::ranges::max_element(best);
}

TEST(Replay, BeladyIsTheBestOfAllChoices) {
  for (const uint32_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const RoutingRecord record = made_up_routing(
        {.n_layers = 2, .n_experts = 4, .is_cyclic = seed % 2 == 0, .repeats = seed % 3 * 3},
        random);
    for (int n_slots = 2; n_slots <= 6; ++n_slots) {
      EXPECT_EQ(n_hits(replay_with(ReplayPolicy::kBelady, record, n_slots)),
                most_hits(record, n_slots))
          << n_slots;
    }
  }
}

TEST(Replay, NoPolicyBeatsBelady) {
  for (const uint32_t seed : {1, 2, 3, 4, 5, 6}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const RoutingRecord record = made_up_routing({.n_layers = 5,
                                                  .n_experts = 12,
                                                  .n_steps = 80,
                                                  .most_experts = 4,
                                                  .is_cyclic = seed % 2 == 0,
                                                  .repeats = seed},
                                                 random);
    for (const int64_t n_slots : {4, 7, 15, 30, 45, 60}) {
      const int64_t most = n_hits(replay_with(ReplayPolicy::kBelady, record, n_slots));
      for (const ReplayPolicy policy : kReplayPolicies) {
        EXPECT_LE(n_hits(replay_with(policy, record, n_slots)), most)
            << to_string(policy) << ' ' << n_slots;
      }
    }
  }
}

TEST(Replay, EveryUseCountsOnceHoweverFewSlotsThereAre) {
  std::mt19937 random(3);
  const RoutingRecord record = made_up_routing({.most_experts = 6}, random);
  for (const ReplayPolicy policy : kReplayPolicies) {
    for (const int64_t n_slots : {1, 2, 3, 24}) {
      const ReplayResult result = replay_with(policy, record, n_slots);
      EXPECT_EQ(result.prefill.n_uses + result.decode.n_uses, static_cast<int64_t>(record.n_uses()))
          << to_string(policy);
    }
    // With a slot for each, only the first use of each misses.
    const ReplayResult all = replay_with(policy, record, 24);
    EXPECT_EQ(n_hits(all), static_cast<int64_t>(record.n_uses()) - 24);
  }
}

TEST(Replay, PrefillAndDecodeAreCountedApart) {
  RoutingRecord record({.model = "x", .n_layers = 1, .n_experts = 4, .top_k = 1});
  record.begin_step(8, 0);
  record.add_visit(0, std::vector{0, 1, 2, 3});
  record.begin_step(0, 1);
  record.add_visit(0, std::vector{3});
  record.begin_step(4, 1);  // both kinds of tokens: as a prompt's
  record.add_visit(0, std::vector{0, 3});
  const ReplayResult result = replay_with(ReplayPolicy::kLru, record, 4);
  EXPECT_EQ(result, (ReplayResult{.prefill = {.n_uses = 6, .n_hits = 2},
                                  .decode = {.n_uses = 1, .n_hits = 1}}));
}

// Layers that come round want their experts again after all others: recency is wrong each time.
TEST(Replay, TheForecastHoldsWhereRecencyThrashes) {
  std::mt19937 random(11);
  const RoutingRecord record =
      made_up_routing({.n_layers = 8, .n_experts = 8, .n_steps = 200}, random);
  constexpr int64_t kSlots = 8;  // an eighth
  const auto rate = [&](ReplayPolicy policy) {
    return replay_with(policy, record, kSlots).decode.hit_rate();
  };
  EXPECT_LT(rate(ReplayPolicy::kLru), 0.02);
  EXPECT_LT(rate(ReplayPolicy::kResidentLfu), 0.1);
  EXPECT_GT(rate(ReplayPolicy::kForecast), 0.15);
}

}  // namespace
}  // namespace penstock
