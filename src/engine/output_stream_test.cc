#include "engine/output_stream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_chat.h"
#include "engine/generate.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

struct Read {
  std::vector<std::string> pieces;
  std::string text;
  OutputEnd end;
};

// What a reader sees of an answer of `ids` and then `last`.
Read read(const std::vector<int32_t>& ids, const RequestEnd& last,
          std::vector<std::string> stop = {}) {
  const TextSetup text = fake_text();
  auto output =
      OutputStream::create(*text.tokenizer, {.prompt = {1, 2, 3}, .stop = std::move(stop)}).value();
  Read seen;
  const auto take = [&](const Event& event) {
    OutputUpdate update = output.push(event);
    if (!update.text.empty()) seen.pieces.push_back(update.text);
    seen.text += update.text;
    if (update.end) seen.end = update.end->value();
    return update.end.has_value();
  };
  for (const int32_t id : ids) {
    if (take(TokenEvent{id})) return seen;
  }
  EXPECT_TRUE(take(last));
  return seen;
}

constexpr RequestEnd kEos{.reason = EndReason::kStop, .stop_id = kImEnd};
constexpr RequestEnd kFull{.reason = EndReason::kLength};

TEST(OutputStream, GivesWholeCharactersAsTheyCome) {
  const Read seen = read(bytes_of("a\xC3\xA9\xF0\x9F\x98\x80"), kEos);
  EXPECT_EQ(seen.pieces, (std::vector<std::string>{"a", "\xC3\xA9", "\xF0\x9F\x98\x80"}));
  EXPECT_EQ(seen.end.reason, FinishReason::kStop);
  // Seven bytes, and the token that ended the answer.
  EXPECT_EQ(seen.end.usage, (Usage{.prompt_tokens = 3, .completion_tokens = 8}));
}

// BC-32b
TEST(OutputStream, ACharacterCutByTheLengthIsOneReplacement) {
  const Read seen = read(bytes_of("ab\xF0\x9F\x98"), kFull);
  EXPECT_EQ(seen.text, "ab\xEF\xBF\xBD");
  EXPECT_EQ(seen.end.reason, FinishReason::kLength);
  EXPECT_EQ(seen.end.usage.completion_tokens, 5);
}

// BC-34
TEST(OutputStream, NothingOfAStopStringIsEverShown) {
  const Read seen = read(bytes_of("alpha beta gamma delta"), kEos, {"beta gamma", "beta gammas"});
  EXPECT_EQ(seen.text, "alpha ");
  EXPECT_EQ(seen.end.reason, FinishReason::kStop);
  EXPECT_EQ(seen.end.usage.completion_tokens, 16) << "tokens up to the match, not what came after";
}

TEST(OutputStream, WhatLookedLikeAStopIsShownInTheEnd) {
  const Read cut = read(bytes_of("alpha beta gam"), kFull, {"beta gamma"});
  EXPECT_EQ(cut.text, "alpha beta gam");
  EXPECT_EQ(cut.end.reason, FinishReason::kLength);
  EXPECT_EQ(read(bytes_of("alpha beta gam."), kEos, {"beta gamma"}).text, "alpha beta gam.");
}

TEST(OutputStream, SpecialTokensHaveNoText) {
  EXPECT_EQ(read({'a', kImStart, kThink, 'b'}, kEos).text, "a<think>b");
}

TEST(OutputStream, MarksOfACallAreShownThoughTheyAreSpecial) {
  const TextSetup text = fake_text();
  auto output =
      OutputStream::create(*text.tokenizer, {.prompt = {1}, .shown_special = {kImStart}}).value();
  EXPECT_EQ(output.push(TokenEvent{kImStart}).text, "<|im_start|>");
  EXPECT_EQ(output.push(TokenEvent{kImEnd}).text, "");
}

// The tokens that each update shows, as their ids; "/" between updates.
std::string shown_tokens(const std::vector<int32_t>& ids, const RequestEnd& last,
                         std::vector<std::string> stop = {}) {
  const TextSetup text = fake_text();
  auto output =
      OutputStream::create(*text.tokenizer, {.prompt = {1}, .stop = std::move(stop)}).value();
  std::string shown;
  const auto take = [&](const Event& event) {
    const OutputUpdate update = output.push(event);
    for (const TokenEvent& token : update.tokens) {
      EXPECT_EQ(token.logprob, -0.5F);
      shown += text.tokenizer->token_bytes(token.id);
    }
    shown += '/';
    return update.end.has_value();
  };
  for (const int32_t id : ids) {
    if (take(TokenEvent{.id = id, .logprob = -0.5F})) return shown;
  }
  take(last);
  return shown;
}

// BC-55
TEST(OutputStream, Bc55_TokensComeWithTheirText) {
  EXPECT_EQ(shown_tokens(bytes_of("ab"), kEos), "a/b//");
  // Bytes of a character count with what it begins: each token is there, in order.
  EXPECT_EQ(shown_tokens(bytes_of("\xF0\x9F\x98\x80."), kFull), "\xF0/\x9F/\x98/\x80/.//");
  // What could be a stop string is held back with its tokens, and dropped with them.
  EXPECT_EQ(shown_tokens(bytes_of("xstop"), kEos, {"stop"}), "x/////");
  EXPECT_EQ(shown_tokens(bytes_of("xsta"), kEos, {"stop"}), "x///sta//");
  EXPECT_EQ(shown_tokens(bytes_of("xst"), kFull, {"stop"}), "x///st/");
}

TEST(OutputStream, Bc55_ATokenThatAStopStringCutsIsShown) {
  EXPECT_EQ(shown_tokens({'a', kThink, 'b'}, kEos, {"ink"}), "a/<think>/");
}

TEST(OutputStream, WithoutLogProbabilitiesThereAreNoTokens) {
  const TextSetup text = fake_text();
  auto output = OutputStream::create(*text.tokenizer, {.prompt = {1}}).value();
  EXPECT_TRUE(output.push(TokenEvent{'a'}).tokens.empty());
}

TEST(OutputStream, AnErrorIsTheEnd) {
  const TextSetup text = fake_text();
  auto output = OutputStream::create(*text.tokenizer, {.prompt = {1}}).value();
  const OutputUpdate update = output.push(Error{ErrorKind::kInternal, "planted"});
  ASSERT_TRUE(update.end);
  ASSERT_FALSE(update.end->has_value());
  EXPECT_EQ(update.end->error().message, "planted");
}

TEST(OutputStream, AnEmptyStopStringIsRefused) {
  const TextSetup text = fake_text();
  const auto output = OutputStream::create(*text.tokenizer, {.prompt = {1}, .stop = {""}});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().param, "stop");
}

TEST(Generate, ShowsTheAnswerAndStopsWhenTold) {
  const TextSetup text = fake_text();
  const auto engine = Engine::start(std::make_unique<FakeModel>(saying(bytes_of("hello, world"))),
                                    {kImEnd}, {}, Log::none());
  GenerationRequest request{.prompt = {kImStart, 'a', 's', 's', 'i', 's', 't', 'a', 'n', 't', '\n'},
                            .sampling = {.temperature = 0.0}};
  const auto run = [&](size_t wanted) {
    std::string shown;
    const auto end = generate(*engine, *text.tokenizer, request, [&](std::string_view piece) {
      shown += piece;
      return shown.size() < wanted;
    });
    return std::pair(shown, end.value());
  };
  const auto [whole, end] = run(100);
  EXPECT_EQ(whole, "hello, world");
  EXPECT_EQ(end.reason, FinishReason::kStop);
  EXPECT_EQ(end.usage, (Usage{.prompt_tokens = 11, .completion_tokens = 13}));

  request.stop = {"wor"};
  EXPECT_EQ(run(100).first, "hello, ");
  request.prompt = {};
  EXPECT_FALSE(generate(*engine, *text.tokenizer, request, [](std::string_view) { return true; }));
}

// A long prefill says nothing; whoever waits must be able to stop it.
TEST(Generate, AsksWhetherToGoOnWhileNothingComes) {
  const TextSetup text = fake_text();
  std::promise<void> asked;
  FakeModelOptions options = saying(bytes_of("hello"), /*for_ever=*/true);
  options.on_step = [waits = asked.get_future().share()](auto) {
    waits.wait_for(std::chrono::seconds(30));
    return Result<void>();
  };
  const auto engine =
      Engine::start(std::make_unique<FakeModel>(std::move(options)), {kImEnd}, {}, Log::none());
  int n_asked = 0;
  const auto end =
      generate(*engine, *text.tokenizer, {.prompt = {kImStart}, .sampling = {.temperature = 0.0}},
               [&](std::string_view piece) {
                 EXPECT_EQ(piece, "");
                 if (++n_asked == 2) asked.set_value();
                 return n_asked < 2;
               });
  ASSERT_TRUE(end);
  EXPECT_EQ(end->reason, FinishReason::kAborted);
}

}  // namespace
}  // namespace penstock
