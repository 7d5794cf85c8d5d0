// What the sampler's options do to a request's events: the sampler itself is tested beside it.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "engine/fake_model.h"

namespace penstock {
namespace {

constexpr int32_t kEos = 299;

struct Recorder : EventSink {
  bool push(Event event) override {
    if (!std::holds_alternative<BeginEvent>(event)) events.push_back(std::move(event));
    return true;
  }
  std::vector<Event> events;
};

std::vector<Event> events_of(GenerationRequest request, FakeModelOptions model = {}) {
  EngineCore core(std::make_unique<FakeModel>(std::move(model)), {kEos}, {}, Log::none());
  EXPECT_TRUE(core.check(request));
  auto events = std::make_shared<Recorder>();
  core.add(std::make_unique<ActiveRequest>(std::move(request), events));
  while (core.step()) {
  }
  return events->events;
}

TEST(EngineSampling, TokenEventsCarryLogprobs) {
  const auto events = events_of({.prompt = {1, 2},
                                 .sampling = {.temperature = 0.0, .n_top_logprobs = 2},
                                 .max_tokens = 4,
                                 .ignore_eos = true});
  ASSERT_EQ(events.size(), 5U);
  for (size_t i = 0; i < 4; ++i) {
    const TokenEvent& token = std::get<TokenEvent>(events[i]);
    ASSERT_EQ(token.top.size(), 2U);
    EXPECT_EQ(token.top[0], (TokenLogprob{token.id, token.logprob.value()}));  // greedy
    EXPECT_LE(token.top[1].logprob, token.top[0].logprob);
    EXPECT_GT(token.logprob.value(), -std::log(300.0)) << "the best of 300 is above the average";
  }
}

}  // namespace
}  // namespace penstock
