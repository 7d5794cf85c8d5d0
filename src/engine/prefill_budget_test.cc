#include "engine/prefill_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock {
namespace {

// A machine with a clock of its own: what a step takes is what this says.
struct FakeMachine {
  int n_layers = 12;
  double decode_base = 0.004;
  double decode_each = 0.001;
  // What a chunk costs that crosses all layers in one step.
  double prefill_token = 0.001;
  double chunk_overhead = 0.002;

  double seconds(const StepWork& work) const {
    const double decode =
        work.n_decodes > 0 ? decode_base + decode_each * static_cast<double>(work.n_decodes) : 0.0;
    const double prefill = chunk_overhead + prefill_token * static_cast<double>(work.n_prefill);
    return decode + prefill * work.n_layers / n_layers;
  }
  double undisturbed(int64_t n_decodes) const { return seconds({.n_decodes = n_decodes}); }
};

// A budget, and a machine that does as it says.
class Steps {
 public:
  explicit Steps(FakeMachine fake, PrefillBudgetOptions options = {})
      : machine(fake), budget(options, fake.n_layers) {}

  double run(const StepWork& work) {
    const double seconds = machine.seconds(work);
    budget.record(work, seconds);
    return seconds;
  }
  // A prompt of n tokens without answers beside it.
  void run_alone(int64_t n) {
    run({.n_prefill = n, .n_layers = machine.n_layers, .ends_chunk = true});
  }
  void run_undisturbed(int64_t n_decodes) { run({.n_decodes = n_decodes}); }
  // What the next chunk would have, once there may be one.
  int64_t next_chunk(int64_t n_decodes) {
    while (!budget.is_due(n_decodes)) run_undisturbed(n_decodes);
    return budget.chunk_tokens(n_decodes);
  }

  struct Outcome {
    double kept = 0.0;     // share of their speed that the answers keep
    double longest = 0.0;  // step, in undisturbed ones
    double seconds = 0.0;  // until the prompt's last step ended
  };
  // A prompt of n tokens beside n_decodes running answers.
  Outcome run_prompt(int64_t n_decodes, int64_t n) {
    double elapsed = 0.0, longest = 0.0, n_steps = 0.0;
    int64_t n_tokens = 0;
    int n_left = 0;
    while (n > 0) {
      StepWork work = {.n_decodes = n_decodes};
      if (budget.is_due(n_decodes)) {
        if (n_left == 0) {
          n_tokens = std::min(n, budget.chunk_tokens(n_decodes));
          n_left = machine.n_layers;
        }
        work.n_prefill = n_tokens;
        work.n_layers = budget.layers(n_decodes, n_tokens, n_left);
        EXPECT_GE(work.n_layers, 1);
        EXPECT_LE(work.n_layers, n_left);
        n_left -= work.n_layers;
        work.ends_chunk = n_left == 0;
        if (n_left == 0) n -= n_tokens;
      }
      const double seconds = run(work);
      elapsed += seconds;
      longest = std::max(longest, seconds);
      n_steps += 1.0;
    }
    const double usual = machine.undisturbed(n_decodes);
    return {n_steps * usual / elapsed, longest / usual, elapsed};
  }

  FakeMachine machine;
  PrefillBudget budget;
};

TEST(PrefillBudget, WithoutRunningAnswersAStepIsAsLargeAsItMayBe) {
  Steps steps({}, {.most = 300});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(steps.budget.is_due(0));
    EXPECT_EQ(steps.budget.chunk_tokens(0), 300);
    EXPECT_EQ(steps.budget.layers(0, 300, 12), 12);
    steps.run_alone(300);
  }
}

TEST(PrefillBudget, AChunkThatWasBegunBesideAnswersEndsAtOnceWithoutThem) {
  Steps steps({});
  steps.run_undisturbed(1);
  ASSERT_TRUE(steps.budget.is_due(1));
  const int64_t n_tokens = steps.budget.chunk_tokens(1);
  EXPECT_EQ(steps.budget.layers(1, n_tokens, 12), 1) << "nobody knows yet";
  steps.run({.n_decodes = 1, .n_prefill = n_tokens, .n_layers = 1});
  EXPECT_EQ(steps.budget.layers(0, n_tokens, 11), 11);
}

TEST(PrefillBudget, TheFirstStepsWithAnswersShowWhatTheyTakeAlone) {
  Steps steps({});
  steps.run_alone(512);
  EXPECT_FALSE(steps.budget.is_due(1));
  steps.budget.record({.n_decodes = 1},
                      0.050);  // after prefill the caches are cold: this says nothing
  EXPECT_FALSE(steps.budget.is_due(1));
  steps.budget.record({.n_decodes = 1}, 0.005);
  EXPECT_TRUE(steps.budget.is_due(1));
}

TEST(PrefillBudget, RunningAnswersKeepTheirShare) {
  for (const double prefill_token : {0.00002, 0.0005, 0.001, 0.003}) {
    for (const int64_t n_decodes : {1, 4, 16}) {
      for (const int n_layers : {1, 12, 48}) {
        SCOPED_TRACE(testing::Message()
                     << prefill_token << " s a token, " << n_decodes << ", " << n_layers);
        Steps steps({.n_layers = n_layers, .prefill_token = prefill_token});
        steps.run_alone(512);
        steps.run_undisturbed(n_decodes);
        steps.run_undisturbed(n_decodes);
        const auto outcome = steps.run_prompt(n_decodes, 8000);
        EXPECT_GE(outcome.kept, 0.30);
        EXPECT_LE(outcome.longest, 4.0) << "the longest gap in an answer";
      }
    }
  }
}

TEST(PrefillBudget, AnswersThatWereLeftAloneLetAPromptInSooner) {
  const PrefillBudgetOptions options;
  Steps steps({}, options);
  steps.run_alone(512);
  steps.run_undisturbed(2);
  steps.run_undisturbed(2);
  steps.run_prompt(2, 4000);  // to learn it
  for (int i = 0; i < 32; ++i) steps.run_undisturbed(2);
  const auto outcome = steps.run_prompt(2, 60);
  const double without_answers = steps.machine.seconds({.n_prefill = 60, .n_layers = 12});
  EXPECT_LT(outcome.seconds, without_answers / (1.0 - options.share));
  EXPECT_LE(outcome.longest, 4.0);
}

// Weights unpacked and keys read for a chunk of any size take many decode steps: there is no small
// chunk, but a large one can take a layer a step.
TEST(PrefillBudget, ChunksThatCostMuchWhateverTheirSizeAreLarge) {
  Steps steps({.prefill_token = 0.0001, .chunk_overhead = 0.050});
  steps.run_alone(512);
  steps.run_undisturbed(1);
  steps.run_undisturbed(1);
  steps.run_prompt(1, 500);  // to learn it
  const auto outcome = steps.run_prompt(1, 8000);
  EXPECT_GE(outcome.kept, 0.34);
  EXPECT_LE(outcome.longest, 4.0);
  EXPECT_GE(steps.next_chunk(1), 200);
}

TEST(PrefillBudget, APromptIsNotSlowerThanThePromiseNeeds) {
  for (const int n_layers : {12, 48}) {
    Steps steps({.n_layers = n_layers, .chunk_overhead = 0.0});
    steps.run_alone(512);
    steps.run_undisturbed(1);
    steps.run_undisturbed(1);
    EXPECT_LE(steps.run_prompt(1, 8000).kept, 0.44) << n_layers;
  }
}

TEST(PrefillBudget, ItFollowsPromptTokensThatGrowDearer) {
  Steps steps({});
  steps.run_undisturbed(1);
  steps.run_prompt(1, 2000);
  steps.machine.prefill_token *= 4;
  steps.run_prompt(1, 200);  // time to notice
  EXPECT_GE(steps.run_prompt(1, 2000).kept, 0.30);
}

TEST(PrefillBudget, ItFollowsAnswersThatGrowSlowerDuringALongPrompt) {
  Steps steps({});
  steps.run_undisturbed(1);
  steps.run_prompt(1, 1000);
  const int64_t before = steps.next_chunk(1);
  steps.machine.decode_base *= 3;
  steps.run_prompt(1, 20'000);
  EXPECT_GT(steps.next_chunk(1), 3 * before / 2);
}

TEST(PrefillBudget, AfterAPromptItLearnsAgainWhatAnswersTake) {
  Steps steps({});
  steps.run_undisturbed(1);
  steps.run_prompt(1, 400);
  const int64_t before = steps.next_chunk(1);
  steps.machine.decode_base *= 3;
  for (int i = 0; i < 100; ++i) steps.run_undisturbed(1);
  steps.run_prompt(1, 400);
  EXPECT_GT(steps.next_chunk(1), 3 * before / 2);
}

TEST(PrefillBudget, OneSlowStepChangesLittle) {
  Steps steps({});
  steps.run_undisturbed(1);
  steps.run_prompt(1, 2000);
  const int64_t before = steps.next_chunk(1);
  steps.budget.record({.n_decodes = 1}, 1.0);  // somebody else had the processor
  EXPECT_LE(steps.next_chunk(1), 2 * before);
  steps.budget.record({.n_decodes = 1, .n_prefill = before, .n_layers = 1}, 1.0);
  steps.run_prompt(1, 200);
  EXPECT_GE(steps.next_chunk(1), before / 2);
}

TEST(PrefillBudget, ANumberOfAnswersNotSeenYetIsJudgedByItsNeighbours) {
  Steps fewer({});
  fewer.run_alone(100);
  fewer.budget.record({.n_decodes = 2}, 0.010);
  fewer.budget.record({.n_decodes = 2}, 0.010);
  EXPECT_EQ(fewer.budget.chunk_tokens(4), fewer.budget.chunk_tokens(2))
      << "four take at least as long as two";
  Steps more({});
  more.run_alone(100);
  more.budget.record({.n_decodes = 8}, 0.040);
  more.budget.record({.n_decodes = 8}, 0.040);
  more.budget.record({.n_decodes = 1}, 0.001);
  EXPECT_LE(more.budget.chunk_tokens(4), more.budget.chunk_tokens(8))
      << "and at least half as long as eight";
}

TEST(PrefillBudget, APromptMovesHoweverDearItIs) {
  PrefillBudget budget({}, 12);
  budget.record({.n_prefill = 100, .n_layers = 12, .ends_chunk = true}, 1e4);
  budget.record({.n_decodes = 1}, 0.001);
  budget.record({.n_decodes = 1}, 0.001);
  EXPECT_EQ(budget.chunk_tokens(1), 1);
  EXPECT_EQ(budget.layers(1, 1, 12), 1);
}

}  // namespace
}  // namespace penstock
