// For tests: the engine's core on a model without weights, and clients that record what they get.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "engine/fake_model.h"

namespace penstock {

struct Recorder : EventSink {
  bool push(Event event) override {
    EXPECT_FALSE(end || error) << "an event after the last one";
    if (const auto* start = std::get_if<BeginEvent>(&event)) {
      EXPECT_FALSE(begin);
      begin = *start;
    }
    if (const auto* token = std::get_if<TokenEvent>(&event)) {
      EXPECT_TRUE(begin) << "a token before the beginning";
      tokens.push_back(token->id);
      token_events.push_back(*token);
    }
    if (const auto* last = std::get_if<RequestEnd>(&event)) end = *last;
    if (const auto* fault = std::get_if<Error>(&event)) error = *fault;
    return tokens.size() < wanted;
  }
  bool over() const { return end || error; }

  size_t wanted = std::numeric_limits<size_t>::max();
  std::optional<BeginEvent> begin;
  std::vector<int32_t> tokens;
  std::vector<TokenEvent> token_events;  // the same, with their log probabilities
  std::optional<RequestEnd> end;
  std::optional<Error> error;
};

inline constexpr int32_t kEos = 299;

struct Rig {
  explicit Rig(FakeModelOptions model = {}, SchedulerOptions options = {},
               std::unique_ptr<KvTier> spill = nullptr)
      : core(
            std::make_unique<FakeModel>(std::move(model)), {kEos}, options, Log::none(),
            [this] { return now; }, std::move(spill)) {}

  struct Client {
    std::shared_ptr<Recorder> events;
    std::shared_ptr<std::atomic<bool>> aborted;
  };

  Client send(GenerationRequest request) {
    EXPECT_TRUE(core.check(request));
    auto events = std::make_shared<Recorder>();
    auto active = std::make_unique<ActiveRequest>(std::move(request), events);
    Client client{events, active->aborted};
    core.add(std::move(active));
    return client;
  }

  void run_to_the_end_keeping_cache() {
    for (int i = 0; core.step(); ++i) ASSERT_LT(i, 100'000);
    const PagePool& pool = core.scheduler().pool();
    EXPECT_EQ(pool.n_free() + pool.n_idle(), pool.n_all()) << "lost pages";
  }

  void run_to_the_end() {
    run_to_the_end_keeping_cache();
    const PagePool& pool = core.scheduler().pool();
    core.drop_cache();
    EXPECT_EQ(pool.n_free(), pool.n_all()) << "the cache kept pages";
  }

  double now = 0.0;  // the engine's clock: stands still unless a test moves it
  EngineCore core;
};

inline int64_t n_cached(const Rig::Client& client) {
  return client.events->begin.value().n_prompt_cached;
}

inline std::vector<int32_t> joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline std::vector<int32_t> random_prompt(uint32_t seed, size_t n) {
  std::mt19937 random(seed);
  std::vector<int32_t> prompt(n);
  for (int32_t& id : prompt) id = static_cast<int32_t>(random() % 300);
  return prompt;
}

inline GenerationRequest greedy(std::vector<int32_t> prompt, int64_t max_tokens) {
  return {.prompt = std::move(prompt),
          .sampling = {.temperature = 0.0},
          .max_tokens = max_tokens,
          .ignore_eos = true};
}

// The greedy continuation by definition: no pages, no batches.
inline std::vector<int32_t> plain_answer(std::vector<int32_t> history, int64_t n) {
  std::vector<int32_t> answer;
  std::vector<float> logits(300);
  while (static_cast<int64_t>(answer.size()) < n) {
    hash_logits(history, logits);
    const auto best = std::ranges::max_element(logits) - logits.begin();
    answer.push_back(static_cast<int32_t>(best));
    history.push_back(answer.back());
  }
  return answer;
}

}  // namespace penstock
