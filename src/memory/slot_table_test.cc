#include "memory/slot_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace penstock {
namespace {

constexpr int kLayers = 3;
constexpr int kExperts = 6;

// Finds worth what the test says, and notes what it is told.
class ScriptedPolicy final : public EvictionPolicy {
 public:
  void use(int layer, std::span<const int> experts) override {
    used = {layer, {experts.begin(), experts.end()}};
  }
  void rate(std::span<const ExpertId> experts, std::span<double> worth) const override {
    for (size_t i = 0; i < experts.size(); ++i) {
      worth[i] = worths[experts[i].layer][experts[i].index];
    }
  }
  void evicted(ExpertId id) override { victims.push_back(id); }

  double worths[kLayers][kExperts] = {};
  std::pair<int, std::vector<int>> used = {};
  std::vector<ExpertId> victims = {};
};

struct Rig {
  explicit Rig(int64_t n_slots) {
    auto made = std::make_unique<ScriptedPolicy>();
    policy = made.get();
    table = std::make_unique<SlotTable>(kLayers, kExperts, n_slots, std::move(made));
  }
  void visit(int layer, std::vector<int> experts) {
    for (const auto& lease : table->lease(layer, experts)) table->give_back(lease.slot, true);
  }
  ScriptedPolicy* policy;
  std::unique_ptr<SlotTable> table;
};

TEST(SlotTable, WhatIsWorthLeastGoesFirstAndEmptySlotsBeforeIt) {
  Rig rig(3);
  rig.policy->worths[0][1] = 5;
  rig.policy->worths[0][2] = 3;
  rig.policy->worths[1][4] = 4;
  rig.visit(0, {1, 2});
  rig.visit(1, {4});  // there was an empty slot
  EXPECT_TRUE(rig.policy->victims.empty());
  rig.visit(2, {0, 3});
  EXPECT_EQ(rig.policy->victims,
            (std::vector<ExpertId>{{.layer = 0, .index = 2}, {.layer = 1, .index = 4}}));
}

TEST(SlotTable, AWaveTakesItsHitsFirstAndAsManyMissesAsFit) {
  Rig rig(3);
  rig.visit(0, {4, 5});
  const std::vector<int> experts = {0, 1, 2, 4, 5};
  const auto wave = rig.table->lease(0, experts);
  ASSERT_EQ(wave.size(), 3u);
  EXPECT_TRUE(wave[0].is_hit && wave[0].which == 3);
  EXPECT_TRUE(wave[1].is_hit && wave[1].which == 4);
  EXPECT_TRUE(!wave[2].is_hit && wave[2].which == 0);
  // The policy hears of those that are computed now.
  EXPECT_EQ(rig.policy->used, (std::pair{0, std::vector{4, 5, 0}}));
}

TEST(SlotTable, WhatWasNotReadIsNotThere) {
  Rig rig(2);
  const std::vector<int> experts = {3};
  const auto failed = rig.table->lease(1, experts);
  rig.table->give_back(failed[0].slot, /*keeps=*/false);
  EXPECT_EQ(rig.table->held_by(failed[0].slot), std::nullopt);
  const auto again = rig.table->lease(1, experts);
  EXPECT_FALSE(again[0].is_hit);
  EXPECT_TRUE(rig.policy->victims.empty());
}

TEST(SlotTable, WhatIsFilledAheadIsNoUseYetAndTakesNoneOfItsOwn) {
  Rig rig(4);
  rig.policy->worths[1][5] = 1;  // little, but it will be asked for
  rig.policy->worths[0][2] = 3;
  rig.policy->worths[0][3] = 2;
  rig.visit(1, {5});
  rig.visit(0, {2, 3, 4});
  rig.policy->used = {};
  const std::vector<int> ahead = {5, 0, 1, 2};
  const auto filled = rig.table->fill_ahead(1, ahead, 2);
  ASSERT_EQ(filled.size(), 2u);
  EXPECT_EQ(filled[0].which, 1u);
  EXPECT_EQ(filled[1].which, 2u);
  EXPECT_EQ(rig.policy->used.second, std::vector<int>{}) << "nobody used them";
  EXPECT_EQ(rig.policy->victims, (std::vector<ExpertId>{{0, 4}, {0, 3}}));
  EXPECT_TRUE(rig.table->has(1, 0) && rig.table->has(1, 5) && !rig.table->has(1, 2));
  // One is leased while it is being filled, the other's reading fails.
  const auto wave = rig.table->lease(1, std::vector{0});
  ASSERT_EQ(wave.size(), 1u);
  EXPECT_TRUE(wave[0].is_hit);
  EXPECT_EQ(wave[0].slot, filled[0].slot);
  rig.table->give_back(filled[1].slot, /*keeps=*/false);
  EXPECT_FALSE(rig.table->has(1, 1));
}

// Against a list of slots, whatever is asked for, while other leases live: a lease keeps its
// expert, however little that is worth.
TEST(SlotTable, ALeasedSlotIsNeverAVictim) {
  for (const uint32_t seed : {1, 2, 3, 4, 5, 6}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto n_slots = static_cast<int64_t>(1 + random() % 9);
    Rig rig(n_slots);
    std::vector<std::pair<ExpertId, size_t>> leased;  // and their slots
    std::set<ExpertId> held;
    for (int step = 0; step < 3000; ++step) {
      rig.policy->worths[random() % kLayers][random() % kExperts] =
          static_cast<double>(random() % 9);
      const auto layer = static_cast<uint16_t>(random() % kLayers);
      std::vector<int> experts;
      for (int e = 0; e < kExperts; ++e) {
        const bool has_lease = std::ranges::any_of(
            leased, [&](const auto& lease) { return lease.first == ExpertId{layer, uint16_t(e)}; });
        if (!has_lease && random() % 3 == 0) experts.push_back(e);
      }
      std::ranges::shuffle(experts, random);
      const size_t n_idle = static_cast<size_t>(n_slots) - leased.size();
      rig.policy->victims.clear();
      const auto wave = rig.table->lease(layer, experts);
      EXPECT_EQ(wave.size(), std::min(experts.size(), n_idle));
      for (const ExpertId victim : rig.policy->victims) {
        EXPECT_EQ(held.erase(victim), 1u);
        for (const auto& [id, slot] : leased) EXPECT_NE(victim, id);
      }
      for (const SlotTable::Lease& lease : wave) {
        const ExpertId id = {layer, static_cast<uint16_t>(experts[lease.which])};
        EXPECT_EQ(lease.is_hit, held.contains(id));
        EXPECT_TRUE(rig.table->is_leased(lease.slot));
        for (const auto& [other, slot] : leased) EXPECT_NE(lease.slot, slot);
        leased.emplace_back(id, lease.slot);
        held.insert(id);
      }
      for (const auto& [id, slot] : leased) EXPECT_EQ(rig.table->held_by(slot), id);
      while (!leased.empty() && random() % 3 != 0) {
        const size_t i = random() % leased.size();
        const bool keeps = random() % 8 != 0;
        rig.table->give_back(leased[i].second, keeps);
        if (!keeps) held.erase(leased[i].first);
        leased.erase(leased.begin() + static_cast<std::ptrdiff_t>(i));
      }
      ASSERT_LE(std::ssize(held), n_slots);
    }
  }
}

}  // namespace
}  // namespace penstock
