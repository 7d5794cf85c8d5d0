// POST /v1/completions, /tokenize and /detokenize: bodies, and the routes over real sockets.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "server/completion_request.h"
#include "server/test_server.h"

namespace penstock {
namespace {

constexpr std::string_view kCompletions = "/v1/completions";

CompletionRequest accepted(std::string_view body) {
  auto request = parse_completion_request(body);
  if (!request) {
    ADD_FAILURE() << body << ": " << request.error().text();
    return {};
  }
  return *std::move(request);
}

void expect_refused(std::string_view body, std::string_view param,
                    ErrorKind kind = ErrorKind::kInvalidArgument) {
  const auto request = parse_completion_request(body);
  ASSERT_FALSE(request) << body;
  EXPECT_EQ(request.error().param, param) << body << ": " << request.error().message;
  EXPECT_EQ(request.error().kind, kind) << body;
  EXPECT_NE(request.error().message.find(param), std::string::npos) << request.error().message;
}

// Says the last token of its prompt for ever.
FakeModelOptions parrot() {
  FakeModelOptions options;
  options.vocab_size = kFakeVocabSize;
  options.logits = [](std::span<const int32_t> history, std::span<float> logits) {
    std::ranges::fill(logits, 0.0F);
    logits[static_cast<size_t>(history.back())] = 50.0F;
  };
  return options;
}

Json complete(const RunningServer& server, std::string_view fields) {
  const TestResponse response =
      server.post(kCompletions, fmt::format(R"({{"temperature":0,{}}})", fields));
  EXPECT_EQ(response.status, 200) << response.body;
  return response.json();
}

// The choices' texts of a stream, and how often each said why it ended.
struct StreamedTexts {
  std::array<std::string, 6> texts = {};
  std::array<int, 6> n_ends = {};
  Json usage;
};

StreamedTexts stream_of(const RunningServer& server, std::string_view fields) {
  const TestResponse response =
      server.post(kCompletions, fmt::format(R"({{"temperature":0,"stream":true,{}}})", fields));
  EXPECT_EQ(response.status, 200) << response.body;
  StreamedTexts streamed;
  EXPECT_EQ(response.events().back(), "[DONE]");
  for (const std::string& data : response.events()) {
    if (data == "[DONE]") continue;
    const Json chunk = parse_json(data).value();
    EXPECT_EQ(chunk["object"], "text_completion");
    if (chunk["choices"].empty()) streamed.usage = chunk["usage"];
    for (const Json& choice : chunk["choices"]) {
      streamed.texts.at(choice["index"]) += choice["text"].get<std::string>();
      if (!choice["finish_reason"].is_null()) ++streamed.n_ends.at(choice["index"]);
    }
  }
  return streamed;
}

TEST(CompletionRequest, EveryFormOfPrompt) {
  EXPECT_EQ(accepted(R"({"prompt":"ab"})").prompts, std::vector<RawPrompt>{"ab"});
  EXPECT_EQ(accepted(R"({"prompt":["ab","c"]})").prompts, (std::vector<RawPrompt>{"ab", "c"}));
  EXPECT_EQ(accepted(R"({"prompt":[1,2]})").prompts,
            (std::vector<RawPrompt>{std::vector<int32_t>{1, 2}}));
  EXPECT_EQ(accepted(R"({"prompt":[[1,2],[3]]})").prompts,
            (std::vector<RawPrompt>{std::vector<int32_t>{1, 2}, std::vector<int32_t>{3}}));
  expect_refused(R"({"prompt":7})", "prompt");
  expect_refused(R"({"prompt":{}})", "prompt");
  expect_refused(R"({"prompt":[1,"a"]})", "prompt");
  expect_refused(R"({"prompt":["a",1]})", "prompt[1]");
  expect_refused(R"({"prompt":[[1],[-1]]})", "prompt[1]");
  expect_refused(R"({"prompt":[1.5]})", "prompt");
  expect_refused(R"({"prompt":[4294967297]})", "prompt");
  expect_refused(R"({"prompt":[18446744073709551615]})", "prompt");
}

TEST(CompletionRequest, DefaultsAreOpenAis) {
  const CompletionRequest request = accepted(R"({"prompt":"a"})");
  EXPECT_EQ(request.generation.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.echo);
  EXPECT_EQ(accepted(R"({"prompt":"a","max_tokens":3})").generation.max_tokens, 3);
  EXPECT_EQ(accepted(R"({"prompt":"a","max_tokens":null})").generation.max_tokens, 16);
}

// BC-56
TEST(CompletionRequest, WhatIsNotServedIsRefusedByName) {
  expect_refused(R"({"prompt":"a","suffix":"b"})", "suffix", ErrorKind::kUnsupported);
  expect_refused(R"({"prompt":"a","best_of":2})", "best_of", ErrorKind::kUnsupported);
  expect_refused(R"({"prompt":"a","best_of":0})", "best_of");
  expect_refused(R"({"prompt":"a","response_format":{"type":"json_object"}})", "response_format",
                 ErrorKind::kUnsupported);
  expect_refused(R"({"prompt":"a","logprobs":21})", "logprobs");
  expect_refused(R"({"prompt":"a","logprobs":-1})", "logprobs");
  expect_refused(R"({"prompt":"a","logprobs":true})", "logprobs");
  expect_refused(R"({"prompt":"a","logprobs":1,"echo":true})", "logprobs", ErrorKind::kUnsupported);
  EXPECT_EQ(accepted(R"({"prompt":"a","logprobs":5})").generation.sampling.n_top_logprobs, 5);
  expect_refused(R"({"prompt":"a","n":0})", "n");
  expect_refused(R"({"prompt":["a","b","c"],"n":43})", "prompt");
  EXPECT_EQ(accepted(R"({"prompt":["a","b"],"n":64})").n, 64);
  accepted(R"({"prompt":"a","suffix":null,"best_of":1,"user":"u","x_unknown":{}})");
}

// BC-28: what has no chat template still completes.
TEST(Completions, NeedNoChatTemplate) {
  const RunningServer server(parrot(), {}, {}, /*chat_template=*/"");
  const Json answer = complete(server, R"("prompt":"abc","max_tokens":3)");
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(answer["choices"][0]["text"], "ccc");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(answer["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answer["usage"]["total_tokens"], 6);
  expect_error(server.chat(chat_body()), 400, "template");
}

TEST(Completions, ManyPromptsAreManyChoicesInOrder) {
  const RunningServer server(parrot());
  const std::string_view fields = R"("prompt":["ab","xyz","q"],"n":2,"max_tokens":2,"echo":true)";
  const Json answer = complete(server, fields);
  ASSERT_EQ(answer["choices"].size(), 6U);
  const StreamedTexts streamed =
      stream_of(server, std::string(fields) + R"(,"stream_options":{"include_usage":true})");
  const std::array expected = {"abbb", "abbb", "xyzzz", "xyzzz", "qqq", "qqq"};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], expected[i]);
    EXPECT_EQ(streamed.texts[i], expected[i]) << i;
    EXPECT_EQ(streamed.n_ends[i], 1) << i;
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 6) << "each prompt once";
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
  EXPECT_EQ(streamed.usage["completion_tokens"], 12);
  EXPECT_EQ(streamed.usage["prompt_tokens"], 6);
  EXPECT_TRUE(server.becomes_idle());
}

TEST(Completions, IdsAreTheirTexts) {
  const RunningServer server(parrot());
  EXPECT_EQ(
      complete(server, R"("prompt":[97,98],"max_tokens":1,"echo":true)")["choices"][0]["text"],
      "abb");
  const Json two = complete(server, R"("prompt":[[97],[256,98]],"max_tokens":1,"echo":true)");
  EXPECT_EQ(two["choices"][0]["text"], "aa");
  EXPECT_EQ(two["choices"][1]["text"], "<|im_start|>bb");
  // Text may spell control tokens here.
  const Json spelt = complete(server, R"("prompt":"<|im_start|>b","max_tokens":1)");
  EXPECT_EQ(spelt["usage"]["prompt_tokens"], 2);
}

TEST(Completions, StopStringsCutAndAreNotSearchedInTheEcho) {
  const RunningServer server(saying(bytes_of("one, two"), /*for_ever=*/true));
  const std::string_view fields =
      R"("prompt":"<|im_start|>assistant\n","stop":[" tw","assist"],"echo":true,"max_tokens":30)";
  EXPECT_EQ(complete(server, fields)["choices"][0]["text"], "<|im_start|>assistant\none,");
  EXPECT_EQ(complete(server, fields)["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(stream_of(server, fields).texts[0], "<|im_start|>assistant\none,");
}

TEST(Completions, TheSameSeedGivesTheSameChoices) {
  const RunningServer server({.vocab_size = kFakeVocabSize});
  const auto texts = [&](std::string_view seed) {
    const Json answer =
        server
            .post(kCompletions,
                  fmt::format(
                      R"({{"prompt":["a","b"],"n":2,"max_tokens":12,"ignore_eos":true,"seed":{}}})",
                      seed))
            .json();
    std::vector<std::string> all;
    for (const Json& choice : answer["choices"]) all.push_back(choice["text"]);
    return all;
  };
  const std::vector<std::string> first = texts("5");
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(first, texts("5"));
  EXPECT_NE(first, texts("6"));
  EXPECT_NE(first[0], first[1]) << "choices of one prompt differ";
}

// BC-55
TEST(Completions, LogprobsStandBesideTheirTokens) {
  const RunningServer server(saying(bytes_of("h\xC3\xB6!")));
  const std::string_view fields = R"("prompt":"<|im_start|>assistant\n","logprobs":2)";
  const Json logprobs = complete(server, fields)["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::parse(R"(["h","bytes:\\xc3","bytes:\\xb6","!"])"));
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0,1,1,2]"));
  ASSERT_EQ(logprobs["token_logprobs"].size(), 4U);
  ASSERT_EQ(logprobs["top_logprobs"].size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    // One logit of 50 among 259 of 0: log(1 / (1 + 259 e^-50)) is 0 in float32.
    EXPECT_NEAR(logprobs["token_logprobs"][i].get<double>(), 0.0, 1e-6);
    EXPECT_EQ(logprobs["top_logprobs"][i].size(), 2U);
    const std::string token = logprobs["tokens"][i];
    EXPECT_EQ(logprobs["top_logprobs"][i][token], logprobs["token_logprobs"][i]);
    for (const Json& other : logprobs["top_logprobs"][i]) {
      const auto value = other.get<double>();
      EXPECT_TRUE(value == logprobs["token_logprobs"][i] || std::abs(value + 50.0) < 1e-4) << value;
    }
  }
  const TestResponse stream =
      server.post(kCompletions, fmt::format(R"({{"temperature":0,"stream":true,{}}})", fields));
  Json streamed;
  for (const std::string& data : stream.events()) {
    if (data == "[DONE]") continue;
    const Json chunk = parse_json(data).value();
    for (const auto& [name, list] : chunk["choices"][0]["logprobs"].items()) {
      for (const Json& item : list) streamed[name].push_back(item);
    }
  }
  EXPECT_EQ(streamed, logprobs);
  EXPECT_TRUE(complete(server, R"("prompt":"a")")["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(
      complete(server, R"("prompt":"a","logprobs":0)")["choices"][0]["logprobs"]["top_logprobs"][0]
          .size(),
      0U);
}

// BC-40
TEST(Completions, EmptyPromptsAre400AndTheServerLives) {
  const RunningServer server(parrot());
  for (const std::string_view body :
       {R"({})", R"({"prompt":null})", R"({"prompt":""})", R"({"prompt":[""]})", R"({"prompt":[]})",
        R"({"prompt":[[]]})", R"({"prompt":["a",""]})"}) {
    const TestResponse refused = server.post(kCompletions, body);
    expect_error(refused, 400, "prompt");
    EXPECT_EQ(refused.json()["error"]["param"], "prompt") << body;
  }
  expect_error(server.post(kCompletions, "not JSON"), 400, "JSON");
  expect_error(server.post(kCompletions, "[]"), 400, "object");
  expect_error(server.post(kCompletions, R"({"prompt":[260]})"), 400, "260");
  EXPECT_EQ(server.post(kCompletions, R"({"prompt":"a"})").status, 200);
  EXPECT_TRUE(server.becomes_idle());
}

// BC-53
TEST(Completions, LengthsOutOfRange) {
  FakeModelOptions model = parrot();
  model.context_length = 20;
  const RunningServer server(std::move(model));
  for (const std::string_view length : {"0", "-1", "\"5\"", "1.5", "true"}) {
    const TestResponse refused =
        server.post(kCompletions, fmt::format(R"({{"prompt":"a","max_tokens":{}}})", length));
    expect_error(refused, 400, "max_tokens");
    EXPECT_EQ(refused.json()["error"]["param"], "max_tokens");
  }
  for (const std::string_view length : {"1000000000", "9223372036854775808", "1e9"}) {
    const Json answer = complete(server, fmt::format(R"("prompt":"abcd","max_tokens":{})", length));
    EXPECT_EQ(answer["usage"]["total_tokens"], 21) << "what is free, and one that goes nowhere";
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  }
  const Json last = complete(server, R"("prompt":"0123456789abcdefghij")");
  EXPECT_EQ(last["usage"]["completion_tokens"], 1)
      << "no room, but for the token that goes nowhere";
  expect_error(server.post(kCompletions, R"({"prompt":"0123456789abcdefghijk"})"), 400, "21");
}

// BC-54
TEST(Completions, SamplingOutOfRange) {
  const RunningServer server(parrot());
  for (const std::string_view field :
       {R"("temperature":-1)", R"("temperature":"NaN")", R"("temperature":2.5)", R"("top_p":1.5)",
        R"("top_k":-2)", R"("min_p":-0.1)", R"("presence_penalty":3)"}) {
    const std::string name(field.substr(1, field.find('"', 1) - 1));
    const TestResponse refused =
        server.post(kCompletions, fmt::format(R"({{"prompt":"a",{}}})", field));
    expect_error(refused, 400, name);
    EXPECT_EQ(refused.json()["error"]["param"], name);
  }
  for (const std::string_view field :
       {R"("temperature":0)", R"("temperature":1e-6)", R"("temperature":1e-45)", R"("top_p":0)",
        R"("top_k":1)", R"("min_p":1)", R"("top_k":1000000000,"temperature":1e-6)"}) {
    const TestResponse answer =
        server.post(kCompletions, fmt::format(R"({{"prompt":"ab","max_tokens":3,{}}})", field));
    EXPECT_EQ(answer.json()["choices"][0]["text"], "bbb") << field << ": " << answer.body;
  }
}

TEST(Tokenize, TextsAndConversations) {
  FakeModelOptions model = parrot();
  model.context_length = 1000;
  const RunningServer server(std::move(model));
  const Json text =
      server
          .post("/tokenize", R"({"model":"fake","prompt":"a<|im_end|>","return_token_strs":true})")
          .json();
  EXPECT_EQ(text, Json::parse(R"({"count":2,"max_model_len":1000,"tokens":[97,257],
                                  "token_strs":["a","<|im_end|>"]})"));
  const Json chat =
      server.post("/tokenize", R"({"messages":[{"role":"user","content":"hi"}]})").json();
  EXPECT_EQ(chat["count"], 21) << "as Server.AnswersWhole has it";
  EXPECT_EQ(chat["tokens"][0], kImStart);
  EXPECT_TRUE(chat["token_strs"].is_null());
  expect_error(server.post("/tokenize", "{}"), 400, "prompt");
  expect_error(server.post("/tokenize", R"({"prompt":5})"), 400, "prompt");
  expect_error(server.post("/tokenize", R"({"messages":[]})"), 400, "messages");
  expect_error(server.post("/tokenize", R"({"prompt":"a","model":"gpt-9"})"), 404, "gpt-9");
  EXPECT_EQ(server.post("/tokenize", R"({"prompt":""})").json()["count"], 0);
}

TEST(Tokenize, AndBack) {
  const RunningServer server(parrot());
  EXPECT_EQ(server.post("/detokenize", R"({"tokens":[97,257,195,182]})").json(),
            Json::parse(R"({"prompt":"a<|im_end|>ö"})"));
  EXPECT_EQ(server.post("/detokenize", R"({"tokens":[]})").json()["prompt"], "");
  expect_error(server.post("/detokenize", R"({"tokens":[97,999]})"), 400, "999");
  expect_error(server.post("/detokenize", R"({"tokens":["a"]})"), 400, "tokens");
  expect_error(server.post("/detokenize", R"({"tokens":"a"})"), 400, "tokens");
  expect_error(server.post("/detokenize", "{}"), 400, "tokens");
}

}  // namespace
}  // namespace penstock
