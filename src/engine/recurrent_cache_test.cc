// Families with recurrent blocks, on a made-up one: their requests go on only from where the state
// was kept, and answers are those of a cold run.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/core_rig.h"

namespace penstock {
namespace {

SchedulerOptions budget_of(int64_t most) { return {.prefill = {.most = most, .share = 0}}; }

GenerationRequest with_snapshots(std::vector<int32_t> prompt, int64_t max_tokens,
                                 std::vector<int64_t> snapshot_at) {
  GenerationRequest request = greedy(std::move(prompt), max_tokens);
  request.snapshot_at = std::move(snapshot_at);
  return request;
}

TEST(RecurrentCache, ARequestGoesOnFromTheDeepestSnapshot) {
  for (const int64_t boundary : {int64_t{1}, int64_t{30}, kPageTokens, kPageTokens + 1,
                                 2 * kPageTokens - 1, 2 * kPageTokens}) {
    SCOPED_TRACE(boundary);
    Rig rig({.n_states = 8}, budget_of(100));
    const auto system = random_prompt(1, 160);
    const auto first = joined(system, random_prompt(2, 50));
    const auto second = joined(system, random_prompt(3, 70));
    const auto a = rig.send(with_snapshots(first, 20, {boundary}));
    rig.run_to_the_end_keeping_cache();
    const auto b = rig.send(with_snapshots(second, 20, {boundary}));
    rig.run_to_the_end();
    EXPECT_EQ(a.events->tokens, plain_answer(first, 20));
    EXPECT_EQ(b.events->tokens, plain_answer(second, 20));
    EXPECT_EQ(n_cached(b), boundary) << "pages alone would have gone on further";
  }
}

TEST(RecurrentCache, TheNextTurnGoesOnFromTheEndOfTheAnswer) {
  Rig rig({.n_states = 4}, budget_of(100));
  const auto prompt = random_prompt(1, 100);
  const auto first = rig.send(greedy(prompt, 50));
  rig.run_to_the_end_keeping_cache();
  const auto next = joined(joined(prompt, first.events->tokens), random_prompt(2, 20));
  const auto second = rig.send(greedy(next, 20));
  rig.run_to_the_end();
  EXPECT_EQ(n_cached(second), 149);
  EXPECT_EQ(second.events->tokens, plain_answer(next, 20));
}

TEST(RecurrentCache, WithoutASnapshotEverythingIsComputed) {
  Rig rig({.n_states = 4}, budget_of(100));
  const auto system = random_prompt(1, 160);
  rig.send(greedy(joined(system, random_prompt(2, 50)), 5));
  rig.run_to_the_end_keeping_cache();
  const auto other = joined(system, random_prompt(3, 50));
  const auto client = rig.send(greedy(other, 5));
  rig.run_to_the_end();
  EXPECT_EQ(n_cached(client), 0);
  EXPECT_EQ(client.events->tokens, plain_answer(other, 5));
}

TEST(RecurrentCache, OneStateIsEnoughToServe) {
  Rig rig({.n_states = 1}, budget_of(100));
  std::vector<std::pair<std::vector<int32_t>, Rig::Client>> sent;
  for (uint32_t i = 0; i < 5; ++i) {
    const auto prompt = joined(random_prompt(1, 100), random_prompt(i, 40));
    sent.emplace_back(prompt, rig.send(with_snapshots(prompt, 10, {100})));
  }
  rig.run_to_the_end();
  for (const auto& [prompt, client] : sent) {
    EXPECT_EQ(client.events->tokens, plain_answer(prompt, 10));
  }
}

// Few states, few pages, chunks, preemption, aborts: for many seeds.
TEST(RecurrentCache, ACrowdGetsTheAnswersOfColdRuns) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Rig rig({.n_pages = 7, .n_states = 2 + static_cast<int64_t>(seed % 4)},
            {.prefill = {.most = 70, .share = 0}, .max_running = 4});
    std::vector<std::pair<GenerationRequest, Rig::Client>> sent;
    for (uint32_t i = 0; i < 25; ++i) {
      const auto n_common = random() % 200;
      auto prompt = random_prompt(seed, n_common + 1);
      prompt = joined(std::move(prompt), random_prompt(100 + i, random() % 100));
      const auto n = static_cast<int64_t>(prompt.size());
      auto request = with_snapshots(prompt, 1 + i * 3, {n / 3, n / 2, n - 1});
      sent.emplace_back(request, rig.send(request));
      if (random() % 8 == 0) sent[random() % sent.size()].second.aborted->store(true);
      for (uint32_t step = random() % 4; step > 0; --step) rig.core.step();
    }
    rig.run_to_the_end();
    for (const auto& [request, client] : sent) {
      ASSERT_TRUE(client.events->end) << "an error, or no end";
      if (client.events->end->reason == EndReason::kAborted) continue;
      EXPECT_EQ(client.events->tokens, plain_answer(request.prompt, request.max_tokens));
    }
  }
}

TEST(RecurrentCache, AFailedStepKeepsNoState) {
  int64_t n_steps = 0;
  Rig rig({.n_states = 3,
           .on_step = [&](auto) -> Result<void> {
             if (n_steps++ == 2) return fail(ErrorKind::kIo, "planted");
             return {};
           }},
          budget_of(100));
  const auto prompt = random_prompt(1, 350);
  const auto failed = rig.send(with_snapshots(prompt, 5, {100}));
  rig.run_to_the_end_keeping_cache();
  ASSERT_TRUE(failed.events->error);
  const auto again = rig.send(with_snapshots(prompt, 5, {100}));
  rig.run_to_the_end();
  EXPECT_EQ(n_cached(again), 100);
  EXPECT_EQ(again.events->tokens, plain_answer(prompt, 5));
}

}  // namespace
}  // namespace penstock
