#include "engine/engine_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/core_rig.h"

namespace penstock {
namespace {

// Makes the model say `script` after the prompt, whatever the prompt is.
FakeModelOptions scripted(size_t n_prompt, std::vector<int32_t> script) {
  FakeModelOptions options;
  options.logits = [n_prompt, script = std::move(script)](std::span<const int32_t> history,
                                                          std::span<float> logits) {
    std::ranges::fill(logits, 0.0F);
    logits[static_cast<size_t>(script.at(history.size() - n_prompt))] = 5.0F;
  };
  return options;
}

TEST(EngineCore, AnswersAreThoseOfThePlainDefinition) {
  Rig rig;
  for (const size_t n : {1, 63, 64, 65, 128, 700}) {
    const auto prompt = random_prompt(static_cast<uint32_t>(n), n);
    const auto client = rig.send(greedy(prompt, 100));
    rig.run_to_the_end();
    EXPECT_EQ(client.events->tokens, plain_answer(prompt, 100)) << n;
    ASSERT_TRUE(client.events->end);
    EXPECT_EQ(client.events->end->reason, EndReason::kLength);
  }
}

// The first token of an answer comes with its prompt's last, and a prompt beside it takes its
// share.
TEST(EngineCore, OnlyStepsOfOneTokenCountAsLoneDecode) {
  Rig rig;
  rig.send(greedy(random_prompt(1, 100), 20));
  rig.run_to_the_end();
  EXPECT_EQ(rig.core.lone_decode().n_steps, 19);
  const double seconds = rig.core.lone_decode().seconds;
  EXPECT_GE(seconds, 0.0);
  for (uint32_t i = 0; i < 2; ++i) rig.send(greedy(random_prompt(i, 100), 20));
  rig.run_to_the_end();
  EXPECT_EQ(rig.core.lone_decode().n_steps, 19);
  EXPECT_EQ(rig.core.lone_decode().seconds, seconds);
}

// Batches, chunks of any size and preemption change nothing.
TEST(EngineCore, AnswersDoNotDependOnTheCrowd) {
  struct Case {
    int64_t n_pages, budget, max_running;
  };
  for (const auto& [n_pages, budget, max_running] :
       {Case{64, 512, 64}, Case{6, 512, 64}, Case{6, 7, 64}, Case{7, 100, 3}, Case{5, 1, 64}}) {
    SCOPED_TRACE(testing::Message() << n_pages << " pages, budget " << budget);
    Rig rig({.n_pages = n_pages},
            {.prefill = {.most = budget, .share = 0}, .max_running = max_running});
    std::vector<std::pair<GenerationRequest, Rig::Client>> sent;
    for (uint32_t i = 0; i < 12; ++i) {
      const auto request = greedy(random_prompt(i, 1 + 23 * i), 90 - 5 * static_cast<int64_t>(i));
      sent.emplace_back(request, rig.send(request));
      rig.core.step();
    }
    rig.run_to_the_end();
    for (const auto& [request, client] : sent) {
      EXPECT_EQ(client.events->tokens, plain_answer(request.prompt, request.max_tokens));
    }
  }
}

TEST(EngineCore, TheSameSeedGivesTheSameTokensInAnyCompany) {
  GenerationRequest request = greedy(random_prompt(5, 100), 60);
  request.sampling = {.temperature = 0.8, .top_p = 0.9, .seed = 77, .frequency_penalty = 0.3};
  Rig alone;
  const auto expected = alone.send(request);
  alone.run_to_the_end();

  Rig crowded({.n_pages = 6}, {.prefill = {.most = 40, .share = 0}});
  crowded.send(greedy(random_prompt(1, 150), 100));
  const auto client = crowded.send(request);
  crowded.send(greedy(random_prompt(2, 150), 50));
  crowded.run_to_the_end();
  EXPECT_EQ(client.events->tokens, expected.events->tokens);

  request.sampling.seed = 78;
  const auto other = alone.send(request);
  alone.run_to_the_end();
  EXPECT_NE(other.events->tokens, expected.events->tokens);
}

TEST(EngineCore, EosAndStopIdsEndTheAnswerUnseen) {
  const std::vector<int32_t> script = {10, 11, 12, kEos, 13, 14};
  const auto run = [&](GenerationRequest request) {
    Rig rig(scripted(/*n_prompt=*/2, script));
    const auto client = rig.send(std::move(request));
    rig.run_to_the_end();
    return *client.events;
  };
  const Recorder eos = run({.prompt = {1, 2}, .sampling = {.temperature = 0.0}});
  EXPECT_EQ(eos.tokens, (std::vector<int32_t>{10, 11, 12}));
  EXPECT_EQ(eos.end.value().reason, EndReason::kStop);
  EXPECT_EQ(eos.end->stop_id, kEos);

  const Recorder stop_id =
      run({.prompt = {1, 2}, .sampling = {.temperature = 0.0}, .stop_ids = {12}});
  EXPECT_EQ(stop_id.tokens, (std::vector<int32_t>{10, 11}));
  EXPECT_EQ(stop_id.end.value().stop_id, 12);

  GenerationRequest ignoring = greedy({1, 2}, 6);
  EXPECT_EQ(run(ignoring).tokens, script);
  ignoring.stop_ids = {14};
  EXPECT_EQ(run(ignoring).end.value().stop_id, 14) << "a stop id is the client's own wish";
}

// BC-63a
TEST(EngineCore, AnAnswerMayBeEmpty) {
  Rig rig(scripted(1, {kEos}));
  const auto client = rig.send({.prompt = {1}, .sampling = {.temperature = 0.0}});
  rig.run_to_the_end();
  EXPECT_TRUE(client.events->tokens.empty());
  EXPECT_EQ(client.events->end.value().reason, EndReason::kStop);
}

TEST(EngineCore, WhatCanNeverRunIsRefusedWithItsNumbers) {
  const auto refusal = [](FakeModelOptions model, const GenerationRequest& request) {
    const Rig rig(std::move(model));
    const auto checked = rig.core.check(request);
    EXPECT_FALSE(checked);
    EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
    return checked.error().message;
  };
  const auto has = [](const std::string& message, const char* number) {
    EXPECT_NE(message.find(number), std::string::npos) << message;
  };
  const std::string pages = refusal({.n_pages = 4}, greedy(random_prompt(1, 400), 1));
  has(pages, "400");
  has(pages, "256");
  const std::string context = refusal({.context_length = 300}, greedy(random_prompt(1, 301), 1));
  has(context, "301");
  has(context, "300");
  const std::string id = refusal({}, greedy({5, 300}, 1));
  has(id, "300");
  has(id, "token 1");
  has(refusal({}, greedy({5, -1}, 1)), "-1");
  has(refusal({}, greedy({}, 1)), "no tokens");
  has(refusal({}, greedy({1}, 0)), "max_tokens is 0");
}

// BC-02, BC-53, BC-62: the answer ends where the room does, and the last token needs no room.
TEST(EngineCore, MaxTokensIsClampedToWhatIsFree) {
  constexpr int64_t kRoom = 256;
  for (const int64_t n_prompt : {kRoom, kRoom - 1, kRoom - 2, int64_t{200}}) {
    for (const int64_t max_tokens :
         {int64_t{200}, int64_t{1'000'000'000}, std::numeric_limits<int64_t>::max()}) {
      Rig rig({.n_pages = kRoom / kPageTokens});
      const auto prompt = random_prompt(3, static_cast<size_t>(n_prompt));
      const auto client = rig.send(greedy(prompt, max_tokens));
      const auto after = rig.send(greedy({1, 2}, 3));
      rig.run_to_the_end();
      EXPECT_EQ(client.events->tokens, plain_answer(prompt, kRoom - n_prompt + 1)) << n_prompt;
      EXPECT_EQ(client.events->end.value().reason, EndReason::kLength);
      EXPECT_EQ(after.events->tokens, plain_answer({1, 2}, 3));
    }
  }
}

// BC-58: at every stage: waiting, in each chunk of the prompt, before the first token, in the
// answer.
TEST(EngineCore, AbortEndsARequestBeforeTheNextStepAtEveryStage) {
  for (int abort_at = 0; abort_at < 12; ++abort_at) {
    SCOPED_TRACE(abort_at);
    Rig rig({.n_pages = 8}, {.prefill = {.most = 50, .share = 0}});
    const auto other_prompt = random_prompt(1, 60);
    const auto other = rig.send(greedy(other_prompt, 80));
    const auto client = rig.send(greedy(random_prompt(2, 260), 100));
    for (int i = 0; i < abort_at; ++i) rig.core.step();
    client.aborted->store(true);
    const size_t n_tokens = client.events->tokens.size();
    rig.core.step();
    EXPECT_EQ(client.events->end.value().reason, EndReason::kAborted);
    EXPECT_EQ(client.events->tokens.size(), n_tokens);
    client.aborted->store(true);  // again: nothing
    rig.run_to_the_end();
    EXPECT_EQ(other.events->tokens, plain_answer(other_prompt, 80));
  }
}

// The last token of a prompt may come alone, be it because the chunk before it ended there or
// because the cache has all the others: it is a prompt's all the same.
TEST(EngineCore, TheModelIsToldWhichTokensWereGenerated) {
  std::vector<std::pair<int64_t, TokenOrigin>> slices;  // position of the first token
  Rig rig({.on_step = [&](std::span<const SequenceSlice> batch) -> Result<void> {
            for (const SequenceSlice& slice : batch) {
              slices.emplace_back(slice.position, slice.origin);
            }
            return {};
          }},
          {.prefill = {.most = 50, .share = 0}});
  const auto prompt = random_prompt(1, 101);
  for (int i = 0; i < 2; ++i) {
    rig.send(greedy(prompt, 4));
    rig.run_to_the_end_keeping_cache();
  }
  ASSERT_GT(slices.size(), 8U);
  for (const auto& [position, origin] : slices) {
    EXPECT_EQ(origin, position < 101 ? TokenOrigin::kPrompt : TokenOrigin::kGenerated) << position;
  }
  EXPECT_EQ(std::ranges::count(slices, std::pair(int64_t{100}, TokenOrigin::kPrompt)), 2);
}

TEST(EngineCore, ASinkThatWantsNoMoreEndsItsRequest) {
  Rig rig;
  const auto client = rig.send(greedy({1, 2}, 100));
  client.events->wanted = 3;
  rig.run_to_the_end();
  EXPECT_EQ(client.events->tokens, plain_answer({1, 2}, 3));
  EXPECT_EQ(client.events->end.value().reason, EndReason::kAborted);
}

// BC-59: failing one step after the other, whoever is in it.
TEST(EngineCore, AFailedStepEndsItsRequestsAndNothingElse) {
  for (const bool throws : {false, true}) {
    for (int fail_at = 0; fail_at < 8; ++fail_at) {
      int step = 0;
      Rig rig({.n_pages = 8,
               .on_step = [&](auto) -> Result<void> {
                 if (step++ != fail_at) return {};
                 if (throws) throw std::runtime_error("planted");
                 return fail(ErrorKind::kIo, "planted");
               }},
              {.prefill = {.most = 100, .share = 0}, .max_running = 2});
      std::vector<Rig::Client> clients;
      for (uint32_t i = 0; i < 4; ++i)
        clients.push_back(rig.send(greedy(random_prompt(i, 150), 3)));
      rig.run_to_the_end();
      int n_failed = 0;
      for (uint32_t i = 0; i < 4; ++i) {
        const Recorder& events = *clients[i].events;
        ASSERT_TRUE(events.over());
        if (events.error) {
          ++n_failed;
          EXPECT_NE(events.error->message.find("planted"), std::string::npos);
        } else {
          EXPECT_EQ(events.tokens, plain_answer(random_prompt(i, 150), 3));
        }
      }
      EXPECT_GE(n_failed, 1);
      EXPECT_LE(n_failed, 2) << "more than took part in the step";
    }
  }
}

// BC-63c
TEST(EngineCore, BrokenLogitsEndOneRequestOnly) {
  Rig rig({.logits = [](std::span<const int32_t> history, std::span<float> logits) {
    hash_logits(history, logits);
    if (history[0] == 9 && history.size() > 5) {
      logits[100] = std::numeric_limits<float>::quiet_NaN();
    }
  }});
  const auto broken = rig.send(greedy({9, 1, 1}, 50));
  const auto healthy = rig.send(greedy({8, 1, 1}, 50));
  rig.run_to_the_end();
  ASSERT_TRUE(broken.events->error);
  EXPECT_NE(broken.events->error->message.find("100"), std::string::npos);
  EXPECT_EQ(broken.events->tokens, plain_answer({9, 1, 1}, 3));
  EXPECT_EQ(healthy.events->tokens, plain_answer({8, 1, 1}, 50));
}

TEST(EngineCore, RunningDecodesAreInEveryStepOfALongPrompt) {
  std::vector<size_t> batch_sizes;
  Rig rig({.on_step = [&](std::span<const SequenceSlice> batch) -> Result<void> {
            batch_sizes.push_back(batch.size());
            return {};
          }},
          {.prefill = {.most = 64, .share = 0}});
  const auto talking = rig.send(greedy({1, 2, 3}, 40));
  rig.core.step();
  const auto long_prompt = rig.send(greedy(random_prompt(1, 1000), 1));
  while (!long_prompt.events->over()) {
    const size_t before = talking.events->tokens.size();
    rig.core.step();
    EXPECT_EQ(talking.events->tokens.size(), before + 1) << "a long prompt stopped a stream";
  }
  EXPECT_EQ(batch_sizes.size(), 1U + (1000 + 63) / 64);
}

TEST(EngineCore, EndAllLeavesNothing) {
  Rig rig;
  const auto running = rig.send(greedy({1}, 100));
  rig.core.step();
  const auto waiting = rig.send(greedy({2}, 100));
  rig.core.end_all({.kind = ErrorKind::kCancelled, .message = "stopping"});
  for (const auto& client : {running, waiting}) {
    EXPECT_EQ(client.events->error.value().kind, ErrorKind::kCancelled);
  }
  EXPECT_FALSE(rig.core.step());
  rig.run_to_the_end();
}

}  // namespace
}  // namespace penstock
