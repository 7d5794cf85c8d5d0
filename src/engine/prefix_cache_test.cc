// Requests that begin alike: what one computed serves the others, and changes no answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core_rig.h"

namespace penstock {
namespace {

constexpr SchedulerOptions kFixedBudget = {.prefill = {.share = 0}};

std::vector<int32_t> with_tail(std::vector<int32_t> beginning, int64_t n_common, size_t n,
                               uint32_t seed) {
  beginning.resize(static_cast<size_t>(n_common));
  const auto tail = random_prompt(seed, n - beginning.size());
  return joined(std::move(beginning), tail);
}

// Counts what the model computes. A base, so that it is there before the model.
struct StepCounter {
  FakeModelOptions counting(FakeModelOptions model) const {
    model.on_step = [count = n_computed](std::span<const SequenceSlice> batch) -> Result<void> {
      for (const SequenceSlice& slice : batch) *count += static_cast<int64_t>(slice.tokens.size());
      return {};
    };
    return model;
  }

  std::shared_ptr<int64_t> n_computed = std::make_shared<int64_t>(0);
};

struct CountingRig : StepCounter, Rig {
  explicit CountingRig(FakeModelOptions model = {}, SchedulerOptions options = kFixedBudget)
      : Rig(counting(std::move(model)), options) {}
};

// BC-61: prompts that share nothing, one token, about a page, all.
TEST(PrefixCache, AHitGivesTheTokensOfAColdRun) {
  const auto first = random_prompt(1, 300);
  for (const int64_t n_common : {int64_t{0}, int64_t{1}, kPageTokens - 1, kPageTokens,
                                 kPageTokens + 1, 2 * kPageTokens, int64_t{299}, int64_t{300}}) {
    SCOPED_TRACE(n_common);
    CountingRig rig;
    rig.send(greedy(first, 40));
    rig.run_to_the_end_keeping_cache();
    const auto prompt = with_tail(first, n_common, 300, 2);
    *rig.n_computed = 0;
    const auto client = rig.send(greedy(prompt, 40));
    rig.run_to_the_end();
    EXPECT_EQ(client.events->tokens, plain_answer(prompt, 40));
    EXPECT_GE(n_cached(client), std::min<int64_t>(n_common, 299));
    EXPECT_LE(n_cached(client), 299) << "the last token's logits must be computed";
    EXPECT_EQ(*rig.n_computed, 300 - n_cached(client) + 39);
  }
}

TEST(PrefixCache, TheNextTurnOfAConversationFindsTheAnswerToo) {
  CountingRig rig;
  const auto first = rig.send(greedy(random_prompt(1, 100), 50));
  rig.run_to_the_end_keeping_cache();
  const auto prompt = joined(random_prompt(1, 100), first.events->tokens);
  const auto next = with_tail(prompt, 150, 170, 3);
  const auto client = rig.send(greedy(next, 10));
  rig.run_to_the_end();
  EXPECT_EQ(n_cached(client), 149) << "the answer's last token was never computed";
  EXPECT_EQ(client.events->tokens, plain_answer(next, 10));
}

// BC-61: at once, and in every crowd.
TEST(PrefixCache, RequestsThatComeTogetherComputeTheirBeginningOnce) {
  CountingRig rig({}, {.prefill = {.most = 100, .share = 0}});
  const auto prompt = random_prompt(1, 4 * kPageTokens + 10);
  std::vector<Rig::Client> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(rig.send(greedy(prompt, 20)));
  rig.run_to_the_end();
  for (const auto& client : clients) {
    EXPECT_EQ(client.events->tokens, plain_answer(prompt, 20));
  }
  EXPECT_EQ(n_cached(clients[0]), 0);
  for (size_t i = 1; i < clients.size(); ++i) EXPECT_GE(n_cached(clients[i]), 4 * kPageTokens);
  EXPECT_LE(*rig.n_computed, 4 * kPageTokens + 8 * 10 + 8 * 19);
}

TEST(PrefixCache, WhoComputesTheCommonBeginningMayLeave) {
  for (int abort_at = 0; abort_at < 6; ++abort_at) {
    SCOPED_TRACE(abort_at);
    CountingRig rig({}, {.prefill = {.most = 50, .share = 0}});
    const auto prompt = random_prompt(1, 200);
    const auto leader = rig.send(greedy(prompt, 10));
    const auto follower = rig.send(greedy(prompt, 10));
    for (int i = 0; i < abort_at; ++i) rig.core.step();
    leader.aborted->store(true);
    rig.run_to_the_end();
    EXPECT_EQ(follower.events->tokens, plain_answer(prompt, 10));
  }
}

TEST(PrefixCache, ScopesAndRefusersShareNothing) {
  CountingRig rig;
  const auto prompt = random_prompt(1, 200);
  const auto send = [&](std::string scope, bool use_cache) {
    GenerationRequest request = greedy(prompt, 5);
    request.prefix_scope = std::move(scope);
    request.use_prefix_cache = use_cache;
    const auto client = rig.send(request);
    rig.run_to_the_end_keeping_cache();
    EXPECT_EQ(client.events->tokens, plain_answer(prompt, 5));
    return n_cached(client);
  };
  EXPECT_EQ(send("alice", true), 0);
  EXPECT_EQ(send("bob", true), 0);
  EXPECT_EQ(send("alice", true), 199);
  EXPECT_EQ(send("alice", false), 0);
  EXPECT_EQ(send("carol", false), 0);
  EXPECT_EQ(send("carol", true), 0) << "who takes nothing leaves nothing";
}

TEST(PrefixCache, MediaIsToldApart) {
  CountingRig rig;
  const auto prompt = random_prompt(1, 200);
  const auto send = [&](uint64_t hash) {
    GenerationRequest request = greedy(prompt, 5);
    request.content = {{.begin = 70, .end = 130, .hash = hash}};
    const auto client = rig.send(request);
    rig.run_to_the_end_keeping_cache();
    return n_cached(client);
  };
  EXPECT_EQ(send(1), 0);
  EXPECT_EQ(send(2), 70);
  EXPECT_EQ(send(1), 199);
}

// BC-61: pages that were matched may be gone by the time of the admission.
TEST(PrefixCache, ASmallPoolEvictsAndAnswersStayRight) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    CountingRig rig({.n_pages = 7}, {.prefill = {.most = 60, .share = 0}, .max_running = 4});
    const auto beginning = random_prompt(seed, 200);
    std::vector<std::pair<GenerationRequest, Rig::Client>> sent;
    for (uint32_t i = 0; i < 25; ++i) {
      const auto n_common = static_cast<int64_t>((i * 53 + seed * 17) % 200);
      const size_t n = static_cast<size_t>(n_common) + 1 + (i * 31) % 120;
      const auto request = greedy(with_tail(beginning, n_common, n, 100 + i), 1 + i * 3);
      sent.emplace_back(request, rig.send(request));
      if (i % 3 != 0) rig.core.step();
    }
    rig.run_to_the_end();
    for (const auto& [request, client] : sent) {
      EXPECT_EQ(client.events->tokens, plain_answer(request.prompt, request.max_tokens));
    }
  }
}

TEST(PrefixCache, APreemptedRequestFindsWhatIsLeftOfItsPages) {
  CountingRig rig({.n_pages = 6});
  const auto old_prompt = random_prompt(1, 100);
  const auto young_prompt = random_prompt(2, 100);
  const auto old = rig.send(greedy(old_prompt, 250));
  const auto young = rig.send(greedy(young_prompt, 150));
  rig.run_to_the_end();
  EXPECT_EQ(old.events->tokens, plain_answer(old_prompt, 250));
  EXPECT_EQ(young.events->tokens, plain_answer(young_prompt, 150));
  EXPECT_GE(rig.core.scheduler().counts().n_preempted, 1);
}

TEST(PrefixCache, AFailedStepLeavesNothingWrongBehind) {
  int64_t n_steps = 0;
  Rig rig({.on_step = [&](auto) -> Result<void> {
            if (n_steps++ == 2) return fail(ErrorKind::kIo, "planted");
            return {};
          }},
          {.prefill = {.most = 100, .share = 0}});
  const auto prompt = random_prompt(1, 350);
  const auto failed = rig.send(greedy(prompt, 5));
  rig.run_to_the_end_keeping_cache();
  ASSERT_TRUE(failed.events->error);
  const auto again = rig.send(greedy(prompt, 5));
  rig.run_to_the_end();
  EXPECT_EQ(again.events->tokens, plain_answer(prompt, 5));
  EXPECT_EQ(n_cached(again), 200);
}

TEST(PrefixCache, DroppingItCostsNobodyAnAnswer) {
  CountingRig rig;
  const auto prompt = random_prompt(1, 200);
  rig.send(greedy(prompt, 5));
  rig.run_to_the_end_keeping_cache();
  const auto running = rig.send(greedy(prompt, 50));
  rig.core.step();
  EXPECT_EQ(rig.core.drop_cache(), 1) << "the page that the running one copied a part of";
  rig.run_to_the_end();
  EXPECT_EQ(running.events->tokens, plain_answer(prompt, 50));
}

TEST(PrefixCache, DynamicRopeSharesOnlyWhatIsRotatedAlike) {
  FakeModelOptions model;
  model.rope_type = RopeType::kDynamic;
  CountingRig rig(std::move(model));
  const auto prompt = random_prompt(1, 200);
  const auto send = [&](int64_t max_tokens) {
    const auto client = rig.send(greedy(prompt, max_tokens));
    rig.run_to_the_end_keeping_cache();
    return n_cached(client);
  };
  EXPECT_EQ(send(5), 0);
  EXPECT_EQ(send(6), 0);
  EXPECT_EQ(send(5), 199);
}

// The engine's clock and the model's cost, both made up: what a running answer keeps of its speed.
TEST(EngineTime, ALongPromptSlowsARunningAnswerAndNeverStopsIt) {
  double* now = nullptr;
  const auto seconds = [](std::span<const SequenceSlice> batch) {
    double total = 0.004;
    for (const SequenceSlice& slice : batch) {
      const double share = slice.layers ? (slice.layers->end - slice.layers->begin) / 5.0 : 1.0;
      total += 0.001 * share * static_cast<double>(slice.tokens.size());
    }
    return total;
  };
  Rig rig({.n_layers = 5,
           .n_pages = 200,
           .on_step = [&](std::span<const SequenceSlice> batch) -> Result<void> {
             *now += seconds(batch);
             return {};
           }});
  now = &rig.now;
  const auto talking = rig.send(greedy({1, 2, 3}, 4000));
  for (int i = 0; i < 10; ++i) rig.core.step();
  const double usual = 0.005;
  const auto long_prompt = rig.send(greedy(random_prompt(1, 8000), 1));
  const double began = rig.now;
  const size_t n_before = talking.events->tokens.size();
  double longest = 0.0;
  while (!long_prompt.events->over()) {
    const double before = rig.now;
    const size_t n_tokens = talking.events->tokens.size();
    rig.core.step();
    EXPECT_EQ(talking.events->tokens.size(), n_tokens + 1);
    longest = std::max(longest, rig.now - before);
  }
  const auto n_tokens = static_cast<double>(talking.events->tokens.size() - n_before);
  EXPECT_GE(n_tokens * usual / (rig.now - began), 0.30);
  EXPECT_LE(longest, 4.0 * usual);
}

}  // namespace
}  // namespace penstock
