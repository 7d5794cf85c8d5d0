// What the sampler's options do to a request's events: the sampler itself is tested beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core_rig.h"

namespace penstock {
namespace {

TEST(EngineSampling, TokenEventsCarryLogprobs) {
  Rig rig;
  const auto events = rig.send({.prompt = {1, 2},
                                .sampling = {.temperature = 0.0, .n_top_logprobs = 2},
                                .max_tokens = 4,
                                .ignore_eos = true});
  rig.run_to_the_end();
  ASSERT_EQ(events.events->token_events.size(), 4U);
  for (const TokenEvent& token : events.events->token_events) {
    ASSERT_EQ(token.top.size(), 2U);
    EXPECT_EQ(token.top[0], (TokenLogprob{token.id, token.logprob.value()}));  // greedy
    EXPECT_LE(token.top[1].logprob, token.top[0].logprob);
    EXPECT_GT(token.logprob.value(), -std::log(300.0)) << "the best of 300 is above the average";
  }
}

// A model that wants to end at once: eos first, then id 7, then id 8.
FakeModelOptions eager_to_end() {
  return {.logits = [](std::span<const int32_t>, std::span<float> logits) {
    std::ranges::fill(logits, 0.0F);
    logits[kEos] = 3.0F;
    logits[7] = 2.0F;
    logits[8] = 1.0F;
  }};
}

TEST(EngineSampling, NeitherEosNorStopIdsBeforeMinTokens) {
  Rig rig(eager_to_end());
  const SamplingOptions sampling{.temperature = 0.0, .min_tokens = 3};
  const auto by_eos = rig.send({.prompt = {1}, .sampling = sampling});
  const auto by_id = rig.send({.prompt = {1}, .sampling = sampling, .stop_ids = {7}});
  const auto no_eos =
      rig.send({.prompt = {1}, .sampling = sampling, .max_tokens = 4, .ignore_eos = true});
  rig.run_to_the_end();
  EXPECT_EQ(by_eos.events->tokens, (std::vector<int32_t>{7, 7, 7}));
  EXPECT_EQ(by_eos.events->end->stop_id, kEos);
  EXPECT_EQ(by_id.events->tokens, (std::vector<int32_t>{8, 8, 8}));
  EXPECT_EQ(by_id.events->end->stop_id, kEos);
  EXPECT_EQ(no_eos.events->tokens, (std::vector<int32_t>{kEos, kEos, kEos, kEos}));
}

TEST(EngineSampling, OneRequestsTroubleIsItsOwn) {
  const FakeModelOptions model{
      .logits = [](std::span<const int32_t> history, std::span<float> logits) {
        hash_logits(history, logits);
        logits[kEos] = 0.0F;
        if (history[0] == 13 && history.size() == 4) logits[5] = std::nanf("");
      }};
  Rig rig(model);
  std::vector<int32_t> everything(300);
  std::iota(everything.begin(), everything.end(), 0);
  const auto nan = rig.send({.prompt = {13, 2}, .max_tokens = 6});
  const auto banned =
      rig.send({.prompt = {1, 2}, .sampling = {.banned_ids = everything}, .max_tokens = 6});
  const auto good = rig.send({.prompt = {1, 2}, .sampling = {.seed = 4}, .max_tokens = 6});
  rig.run_to_the_end();
  ASSERT_TRUE(nan.events->error);
  EXPECT_EQ(nan.events->tokens.size(), 2U);
  EXPECT_NE(nan.events->error->message.find("id 5"), std::string::npos);
  ASSERT_TRUE(banned.events->error);
  EXPECT_EQ(banned.events->error->kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(good.events->tokens.size(), 6U);
  Rig alone(model);
  const auto solo = alone.send({.prompt = {1, 2}, .sampling = {.seed = 4}, .max_tokens = 6});
  alone.run_to_the_end();
  EXPECT_EQ(good.events->tokens, solo.events->tokens)
      << "the same seed, whatever else is in the batch";
}

TEST(EngineSampling, WhatCannotBeIsRefusedBeforeItRuns) {
  Rig rig;
  const auto refused = [&](const GenerationRequest& request, std::string_view param) {
    const auto checked = rig.core.check(request);
    ASSERT_FALSE(checked) << param;
    EXPECT_EQ(checked.error().param, param);
  };
  refused({.prompt = {1}, .sampling = {.min_tokens = 9}, .max_tokens = 8}, "min_tokens");
  refused({.prompt = {1}, .sampling = {.logit_bias = {{300, 1.0}}}}, "logit_bias");
  refused({.prompt = {1}, .sampling = {.typical_p = 2.0}}, "typical_p");
}

}  // namespace
}  // namespace penstock
