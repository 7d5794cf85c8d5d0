#include "model/profile.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/load.h"

namespace penstock {
namespace {

OperationTotals totals(double seconds, double waiting, double bytes) {
  return {.n_calls = 1, .seconds = seconds, .waiting_seconds = waiting, .work = {bytes, 2 * bytes}};
}

TEST(Profile, TheRestIsWhatNoOperationAccountsFor) {
  Profile profile;
  profile.add(Operation::kNorm, totals(1, 0.25, 0));
  profile.add(Operation::kQkv, totals(2, 0.5, 100));
  profile.add(Operation::kNorm, totals(1, 0, 0));
  profile.add_step({.n_calls = 1, .seconds = 5, .waiting_seconds = 1});
  EXPECT_EQ(profile.of(Operation::kNorm).n_calls, 2);
  EXPECT_EQ(profile.of(Operation::kNorm).seconds, 2);
  EXPECT_EQ(profile.of(Operation::kAttention).n_calls, 0);
  EXPECT_EQ(profile.rest().seconds, 1);
  EXPECT_EQ(profile.rest().waiting_seconds, 0.25);
  EXPECT_EQ(profile.steps().work.bytes, 100);
  EXPECT_EQ(profile.steps().work.operations, 200);
}

TEST(Profile, EveryOperationHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kOperationCount; ++i) names.insert(to_string(static_cast<Operation>(i)));
  EXPECT_EQ(names.size(), kOperationCount);
  EXPECT_FALSE(names.contains("?"));
}

TEST(OperationTimer, TakesTheTimeOfItsScopeAndWhatThePoolWaitedInIt) {
  Profile profile;
  profile.waited = std::chrono::milliseconds(500);  // before: not this operation's
  {
    const OperationTimer timer(&profile, Operation::kRope, [] { return OperationWork{7, 8}; });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    profile.waited += std::chrono::milliseconds(1);
  }
  const OperationTotals& rope = profile.of(Operation::kRope);
  EXPECT_EQ(rope.n_calls, 1);
  EXPECT_GE(rope.seconds, 0.002);
  EXPECT_DOUBLE_EQ(rope.waiting_seconds, 0.001);
  EXPECT_EQ(rope.work.bytes, 7);
  EXPECT_EQ(rope.work.operations, 8);
}

TEST(OperationTimer, WithoutAProfileNobodyCountsTheWork) {
  bool asked = false;
  {
    const OperationTimer timer(nullptr, Operation::kRope, [&] {
      asked = true;
      return OperationWork{};
    });
  }
  EXPECT_FALSE(asked);
}

// The tiny models of tests/golden, whose shapes are in their config.json.
class ModelProfile : public testing::Test {
 protected:
  // A prompt of n tokens in one step, then two generated ones, with a profile of the latter.
  static Profile decode_profile(const char* name, int n_threads, int64_t n) {
    const auto checkpoint =
        open_checkpoint(PENSTOCK_SOURCE_DIR "/tests/golden/models/" + std::string(name)).value();
    const auto loaded =
        load_model(checkpoint, {.mode = LoadMode::kRead, .n_threads = n_threads, .kv_tokens = 128})
            .value();
    LanguageModel& model = *loaded.model;
    const std::vector<PageId> pages = {PageId{0}, PageId{1}};
    std::vector<float> logits(static_cast<size_t>(model.spec().vocab_size));
    const std::vector<int32_t> tokens(static_cast<size_t>(n), 3);
    Profile profile;
    for (const int64_t position : {int64_t{0}, n, n + 1}) {
      const bool prompt = position == 0;
      model.set_profile(prompt ? nullptr : &profile);
      const SequenceSlice slice = {
          .tokens = std::span(tokens).first(prompt ? tokens.size() : 1),
          .position = position,
          .pages = pages,
          .planned_length = 128,
          .origin = prompt ? TokenOrigin::kPrompt : TokenOrigin::kGenerated};
      EXPECT_TRUE(model.step({&slice, 1}, logits));
    }
    model.set_profile(nullptr);
    return profile;
  }
};

TEST_F(ModelProfile, OperationsSumToTheStepsThatWereToBeMeasured) {
  for (const char* name : {"llama", "qwen3_moe", "glm4_moe"}) {
    for (const int n_threads : {1, 2}) {
      const Profile profile = decode_profile(name, n_threads, 5);
      EXPECT_EQ(profile.steps().n_calls, 2);
      double sum = profile.rest().seconds;
      for (size_t i = 0; i < kOperationCount; ++i) {
        const OperationTotals& each = profile.of(static_cast<Operation>(i));
        sum += each.seconds;
        EXPECT_GE(each.seconds, each.waiting_seconds);
      }
      EXPECT_NEAR(sum, profile.steps().seconds, 1e-9);
      EXPECT_GE(profile.rest().seconds, 0) << "operations nest";
      if (n_threads == 1) {
        EXPECT_EQ(profile.steps().waiting_seconds, 0);
      }
    }
  }
}

TEST_F(ModelProfile, AFamilyHasTheOperationsOfItsBlocks) {
  const Profile dense = decode_profile("llama", 1, 5);
  EXPECT_GT(dense.of(Operation::kFfnGateUp).n_calls, 0);
  EXPECT_EQ(dense.of(Operation::kExpertDown).n_calls, 0);
  const Profile mixture = decode_profile("qwen3_moe", 1, 5);
  EXPECT_EQ(mixture.of(Operation::kFfnGateUp).n_calls, 0);
  EXPECT_GT(mixture.of(Operation::kExpertDown).n_calls, 0);
  EXPECT_GT(mixture.of(Operation::kRouter).n_calls, 0);
  const Profile both = decode_profile("glm4_moe", 1, 5);
  EXPECT_GT(both.of(Operation::kFfnGateUp).n_calls, 0);
  EXPECT_GT(both.of(Operation::kExpertDown).n_calls, 0);
}

// Two steps over 6 and 7 positions: keys and values of every layer in float32.
TEST_F(ModelProfile, AttentionReadsEachVisibleKeyAndValueOnce) {
  const auto spec = open_checkpoint(PENSTOCK_SOURCE_DIR "/tests/golden/models/llama").value().spec;
  const double layer_heads = 1.0 * spec.n_layers() * spec.head_dim;
  const OperationTotals attention = decode_profile("llama", 2, 5).of(Operation::kAttention);
  EXPECT_EQ(attention.work.bytes, layer_heads * spec.n_kv_heads * 2 * 4 * (6 + 7));
  EXPECT_EQ(attention.work.operations, layer_heads * spec.n_heads * 4 * (6 + 7));
}

}  // namespace
}  // namespace penstock
