#include "engine/prefill_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace penstock {
namespace {

// A machine with a clock of its own: what a step takes is what this says.
struct FakeMachine {
  double decode_base = 0.004;
  double decode_each = 0.001;
  double prefill_token = 0.001;
  double chunk_overhead = 0.002;  // what any prefill in a step costs beside its tokens

  double seconds(int64_t n_decodes, int64_t n_prefill) const {
    const double decode =
        n_decodes > 0 ? decode_base + decode_each * static_cast<double>(n_decodes) : 0.0;
    const double prefill =
        n_prefill > 0 ? chunk_overhead + prefill_token * static_cast<double>(n_prefill) : 0.0;
    return decode + prefill;
  }
};

// What the next step that may carry prefill may carry.
int64_t next_tokens(PrefillBudget& budget, const FakeMachine& machine, int64_t n_decodes) {
  while (budget.tokens(n_decodes) == 0) {
    budget.record(n_decodes, 0, machine.seconds(n_decodes, 0));
  }
  return budget.tokens(n_decodes);
}

// A prompt of n tokens beside n_decodes running answers. The speed that the answers keep.
double run_prompt(PrefillBudget& budget, const FakeMachine& machine, int64_t n_decodes, int64_t n,
                  double* worst_step = nullptr) {
  double elapsed = 0.0;
  double n_steps = 0.0;
  while (n > 0) {
    const int64_t n_prefill = std::min(n, budget.tokens(n_decodes));
    const double seconds = machine.seconds(n_decodes, n_prefill);
    budget.record(n_decodes, n_prefill, seconds);
    if (worst_step != nullptr) *worst_step = std::max(*worst_step, seconds);
    n -= n_prefill;
    elapsed += seconds;
    n_steps += 1.0;
  }
  return n_steps * machine.seconds(n_decodes, 0) / elapsed;
}

TEST(PrefillBudget, WithoutRunningAnswersAStepIsAsLargeAsItMayBe) {
  PrefillBudget budget({.most = 300});
  EXPECT_EQ(budget.tokens(0), 300);
  budget.record(0, 300, 0.3);
  EXPECT_EQ(budget.tokens(0), 300);
}

TEST(PrefillBudget, TheFirstStepsWithAnswersShowWhatTheyTakeAlone) {
  PrefillBudget budget({});
  budget.record(0, 512, 0.5);
  EXPECT_EQ(budget.tokens(1), 0);
  budget.record(1, 0, 0.050);  // after prefill the caches are cold: this says nothing
  EXPECT_EQ(budget.tokens(1), 0);
  budget.record(1, 0, 0.005);
  EXPECT_GT(budget.tokens(1), 0);
  EXPECT_LT(budget.tokens(1), 16) << "1 ms a token, and 8 ms to spend";
}

TEST(PrefillBudget, RunningAnswersKeepTheirShare) {
  for (const double prefill_token : {0.00002, 0.0005, 0.001, 0.003}) {
    for (const int64_t n_decodes : {1, 4, 16}) {
      SCOPED_TRACE(testing::Message() << prefill_token << " s a token, " << n_decodes);
      const FakeMachine machine{.prefill_token = prefill_token};
      PrefillBudget budget({});
      budget.record(0, 512, machine.seconds(0, 512));
      budget.record(n_decodes, 0, machine.seconds(n_decodes, 0));
      double worst = 0.0;
      EXPECT_GE(run_prompt(budget, machine, n_decodes, 8000, &worst), 0.30);
      EXPECT_LE(worst, 4.0 * machine.seconds(n_decodes, 0)) << "the longest gap in an answer";
    }
  }
}

// Weights unpacked for a chunk of any size take twice a decode step: there is no small chunk, so
// the answers catch up between the chunks, and a chunk is worth its cost.
TEST(PrefillBudget, ChunksThatCostMuchWhateverTheirSizeComeLessOften) {
  const FakeMachine machine{.prefill_token = 0.0001, .chunk_overhead = 0.011};
  PrefillBudget budget({});
  budget.record(0, 512, machine.seconds(0, 512));
  budget.record(1, 0, machine.seconds(1, 0));
  run_prompt(budget, machine, 1, 200);  // to learn it
  double worst = 0.0;
  EXPECT_GE(run_prompt(budget, machine, 1, 8000, &worst), 0.34);
  EXPECT_LE(worst, 4.0 * machine.seconds(1, 0));
  EXPECT_GE(next_tokens(budget, machine, 1), 8);
}

TEST(PrefillBudget, APromptIsNotSlowerThanThePromiseNeeds) {
  const FakeMachine machine{.chunk_overhead = 0.0};
  PrefillBudget budget({});
  budget.record(0, 512, machine.seconds(0, 512));
  budget.record(1, 0, machine.seconds(1, 0));
  EXPECT_LE(run_prompt(budget, machine, 1, 8000), 0.42);
}

TEST(PrefillBudget, ItFollowsPromptTokensThatGrowDearer) {
  FakeMachine machine;
  PrefillBudget budget({});
  budget.record(1, 0, machine.seconds(1, 0));
  run_prompt(budget, machine, 1, 2000);
  machine.prefill_token *= 4;
  run_prompt(budget, machine, 1, 200);  // time to notice
  EXPECT_GE(run_prompt(budget, machine, 1, 2000), 0.30);
}

TEST(PrefillBudget, ItFollowsAnswersThatGrowSlowerDuringALongPrompt) {
  FakeMachine machine;
  PrefillBudget budget({});
  budget.record(1, 0, machine.seconds(1, 0));
  run_prompt(budget, machine, 1, 1000);
  const int64_t before = next_tokens(budget, machine, 1);
  machine.decode_base *= 3;
  run_prompt(budget, machine, 1, 20'000);
  EXPECT_GT(next_tokens(budget, machine, 1), 2 * before);
}

TEST(PrefillBudget, AfterAPromptItLearnsAgainWhatAnswersTake) {
  FakeMachine machine;
  PrefillBudget budget({});
  budget.record(1, 0, machine.seconds(1, 0));
  run_prompt(budget, machine, 1, 100);
  const int64_t before = next_tokens(budget, machine, 1);
  machine.decode_base *= 3;
  for (int i = 0; i < 100; ++i) budget.record(1, 0, machine.seconds(1, 0));
  run_prompt(budget, machine, 1, 100);
  EXPECT_GT(next_tokens(budget, machine, 1), 3 * before / 2);
}

TEST(PrefillBudget, OneSlowStepChangesLittle) {
  const FakeMachine machine;
  PrefillBudget budget({});
  budget.record(1, 0, machine.seconds(1, 0));
  run_prompt(budget, machine, 1, 2000);
  const int64_t before = next_tokens(budget, machine, 1);
  budget.record(1, 0, 1.0);  // somebody else had the processor
  EXPECT_LE(next_tokens(budget, machine, 1), 2 * before);
  budget.record(1, before, 1.0);
  run_prompt(budget, machine, 1, 30);
  EXPECT_GE(next_tokens(budget, machine, 1), before / 2);
}

TEST(PrefillBudget, ANumberOfAnswersNotSeenYetIsJudgedByItsNeighbours) {
  PrefillBudget fewer({});
  fewer.record(0, 100, 0.1);
  fewer.record(2, 0, 0.010);
  EXPECT_EQ(fewer.tokens(4), fewer.tokens(2)) << "four take at least as long as two";
  PrefillBudget more({});
  more.record(0, 100, 0.1);
  more.record(8, 0, 0.040);
  more.record(1, 0, 0.001);
  EXPECT_LE(more.tokens(4), more.tokens(8)) << "and at least half as long as eight";
}

TEST(PrefillBudget, APromptMovesHoweverDearItIs) {
  PrefillBudget budget({});
  budget.record(0, 100, 1e4);
  budget.record(1, 0, 0.001);
  budget.record(1, 0, 0.001);
  EXPECT_EQ(budget.tokens(1), 1);
}

}  // namespace
}  // namespace penstock
