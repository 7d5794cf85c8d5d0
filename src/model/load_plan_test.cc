#include "model/load_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "os/memory.h"

namespace penstock {
namespace {

const std::filesystem::path kModels = PENSTOCK_SOURCE_DIR "/tests/golden/models";
constexpr auto kKv = KvFormat::kBF16;

class LoadPlanTest : public testing::Test {
 protected:
  const Checkpoint mixture_ = open_checkpoint(kModels / "mixtral").value();
  const Checkpoint dense_ = open_checkpoint(kModels / "llama").value();
  // Leaves less than any model needs.
  const uint64_t nearly_all_ = available_memory_bytes() - std::min(available_memory_bytes(), kMiB);
};

TEST_F(LoadPlanTest, WhatFitsIsRead) {
  for (const Checkpoint* checkpoint : {&mixture_, &dense_}) {
    const auto plan = plan_load(*checkpoint, {}, kKv);
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_FALSE(plan->map_files);
    EXPECT_EQ(std::ranges::count(plan->banks, Residency::kDisk), 0);
    EXPECT_EQ(plan->kv_tokens, checkpoint->spec.context_length);
    EXPECT_TRUE(plan->prediction.has_value());
  }
}

TEST_F(LoadPlanTest, OptionsDecideWhereExpertsAre) {
  const auto on_disk = plan_load(mixture_, {.mode = LoadMode::kDisk}, kKv);
  ASSERT_TRUE(on_disk) << on_disk.error().text();
  EXPECT_EQ(std::ranges::count(on_disk->banks, Residency::kDisk), mixture_.spec.n_layers());
  EXPECT_FALSE(on_disk->slots.has_value());
  EXPECT_GT(on_disk->slots_bytes, 0u);

  // Fewer than a token's experts will do, though no plan would have it.
  const auto one_slot = plan_load(mixture_, {.expert_slots = {.count = 1}, .kv_tokens = 128}, kKv);
  ASSERT_TRUE(one_slot) << one_slot.error().text();
  EXPECT_EQ(std::ranges::count(one_slot->banks, Residency::kDisk), mixture_.spec.n_layers());
  EXPECT_EQ(one_slot->slots, 1);
  EXPECT_EQ(one_slot->kv_tokens, 128);

  const std::vector<Residency> chosen(static_cast<size_t>(mixture_.spec.n_layers()),
                                      Residency::kLocked);
  EXPECT_EQ(plan_load(mixture_, {.banks = chosen}, kKv)->banks, chosen);
  EXPECT_TRUE(plan_load(mixture_, {.mode = LoadMode::kMap}, kKv)->map_files);
}

TEST_F(LoadPlanTest, WhatDoesNotFitIsMappedUnlessItWasAskedFor) {
  for (const Checkpoint* checkpoint : {&mixture_, &dense_}) {
    const auto plan = plan_load(*checkpoint, {.ram_reserve_bytes = nearly_all_}, kKv);
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_TRUE(plan->map_files);
    ASSERT_EQ(plan->notes.size(), 1u);
    EXPECT_NE(plan->notes[0].find("does not fit"), std::string::npos);

    const auto refused =
        plan_load(*checkpoint, {.mode = LoadMode::kRead, .ram_reserve_bytes = nearly_all_}, kKv);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kExhausted);
    EXPECT_NE(refused.error().message.find("--load read"), std::string::npos);
    EXPECT_EQ(refused.error().hint, "--load auto");
  }
}

TEST_F(LoadPlanTest, OptionsThatContradictEachOtherOrTheModelAreNamed) {
  for (const LoadMode mode : {LoadMode::kRead, LoadMode::kMap}) {
    const auto both = plan_load(mixture_, {.mode = mode, .expert_slots = {.count = 3}}, kKv);
    ASSERT_FALSE(both);
    EXPECT_NE(both.error().message.find("--expert-slots"), std::string::npos);
    EXPECT_NE(both.error().message.find(mode == LoadMode::kRead ? "--load read" : "--load map"),
              std::string::npos);
  }
  for (const LoadOptions& options :
       {LoadOptions{.mode = LoadMode::kDisk}, LoadOptions{.expert_slots = {.share = 0.5}}}) {
    const auto of_dense = plan_load(dense_, options, kKv);
    ASSERT_FALSE(of_dense);
    EXPECT_EQ(of_dense.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(of_dense.error().message.find("no routed experts"), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock
