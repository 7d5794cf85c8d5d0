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

#include "engine/engine_core.h"
#include "engine/fake_model.h"

namespace penstock {
namespace {

constexpr int32_t kEos = 299;

struct Recorder : EventSink {
  bool push(Event event) override {
    if (auto* token = std::get_if<TokenEvent>(&event)) tokens.push_back(std::move(*token));
    if (auto* last = std::get_if<RequestEnd>(&event)) end = *last;
    if (auto* fault = std::get_if<Error>(&event)) error = std::move(*fault);
    return true;
  }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids;
    for (const TokenEvent& token : tokens) ids.push_back(token.id);
    return ids;
  }

  std::vector<TokenEvent> tokens;
  std::optional<RequestEnd> end;
  std::optional<Error> error;
};

struct Rig {
  explicit Rig(FakeModelOptions model = {})
      : core(std::make_unique<FakeModel>(std::move(model)), {kEos}, {}, Log::none()) {}

  std::shared_ptr<Recorder> send(GenerationRequest request) {
    EXPECT_TRUE(core.check(request));
    auto events = std::make_shared<Recorder>();
    core.add(std::make_unique<ActiveRequest>(std::move(request), events));
    return events;
  }
  void run() {
    for (int i = 0; core.step(); ++i) ASSERT_LT(i, 10'000);
  }

  EngineCore core;
};

TEST(EngineSampling, TokenEventsCarryLogprobs) {
  Rig rig;
  const auto events = rig.send({.prompt = {1, 2},
                                .sampling = {.temperature = 0.0, .n_top_logprobs = 2},
                                .max_tokens = 4,
                                .ignore_eos = true});
  rig.run();
  ASSERT_EQ(events->tokens.size(), 4U);
  for (const TokenEvent& token : events->tokens) {
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
  rig.run();
  EXPECT_EQ(by_eos->ids(), (std::vector<int32_t>{7, 7, 7}));
  EXPECT_EQ(by_eos->end->stop_id, kEos);
  EXPECT_EQ(by_id->ids(), (std::vector<int32_t>{8, 8, 8}));
  EXPECT_EQ(by_id->end->stop_id, kEos);
  EXPECT_EQ(no_eos->ids(), (std::vector<int32_t>{kEos, kEos, kEos, kEos}));
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
  rig.run();
  ASSERT_TRUE(nan->error);
  EXPECT_EQ(nan->tokens.size(), 2U);
  EXPECT_NE(nan->error->message.find("id 5"), std::string::npos);
  ASSERT_TRUE(banned->error);
  EXPECT_EQ(banned->error->kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(good->tokens.size(), 6U);
  Rig alone(model);
  const auto solo = alone.send({.prompt = {1, 2}, .sampling = {.seed = 4}, .max_tokens = 6});
  alone.run();
  EXPECT_EQ(good->ids(), solo->ids()) << "the same seed, whatever else is in the batch";
}

TEST(EngineSampling, WhatCannotBeIsRefusedBeforeItRuns) {
  Rig rig;
  const auto refused = [&](GenerationRequest request, std::string_view param) {
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
