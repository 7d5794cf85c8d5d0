#include "server/chat_request.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

namespace penstock {
namespace {

// A request with `fields` beside one message.
std::string body(std::string_view fields) {
  return fmt::format(R"({{"model":"m","messages":[{{"role":"user","content":"hi"}}]{}{}}})",
                     fields.empty() ? "" : ",", fields);
}

ChatRequest accepted(std::string_view fields) {
  auto request = parse_chat_request(body(fields));
  if (!request) {
    ADD_FAILURE() << fields << ": " << request.error().text();
    return {};
  }
  return *std::move(request);
}

Error refused(const std::string& whole) {
  const auto request = parse_chat_request(whole);
  if (request) {
    ADD_FAILURE() << "accepted " << whole;
    return {};
  }
  return request.error();
}

void expect_refused(std::string_view fields, std::string_view param,
                    ErrorKind kind = ErrorKind::kInvalidArgument) {
  const Error error = refused(body(fields));
  EXPECT_EQ(error.param, param) << fields << ": " << error.message;
  EXPECT_EQ(error.kind, kind) << fields;
  EXPECT_NE(error.message.find(param), std::string::npos) << error.message;
}

TEST(ChatRequest, DefaultsAreOpenAis) {
  const ChatRequest request = accepted("");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.generation.sampling.temperature, 1.0);
  EXPECT_EQ(request.generation.sampling.top_p, 1.0);
  EXPECT_EQ(request.generation.max_tokens, std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.seed);
}

TEST(ChatRequest, EveryFieldArrives) {
  const ChatRequest request = accepted(
      R"("temperature":0.5,"top_p":0.9,"min_p":0.1,"top_k":7,"seed":-3,"repetition_penalty":1.1,
         "presence_penalty":-1,"frequency_penalty":2,"max_tokens":5,"stop":["a","b"],
         "stop_token_ids":[4],"ignore_eos":true,"stream":true,
         "stream_options":{"include_usage":true},"tools":[{"function":{"name":"f"}}])");
  const SamplingOptions& sampling = request.generation.sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
  EXPECT_EQ(sampling.presence_penalty, -1.0);
  EXPECT_EQ(sampling.frequency_penalty, 2.0);
  EXPECT_EQ(request.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(request.generation.max_tokens, 5);
  EXPECT_EQ(request.generation.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.generation.stop_ids, std::vector<int32_t>{4});
  EXPECT_TRUE(request.generation.ignore_eos);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(request.conversation.tools.size(), 1U);
}

TEST(ChatRequest, UnknownFieldsAreIgnoredAndNullIsAbsent) {
  const ChatRequest request = accepted(
      R"("user":"u","x":{"y":[1]},"temperature":null,"max_tokens":null,"stop":null,"seed":null,
         "stream":null,"stream_options":null,"tools":null,"tool_choice":null,"n":null,
         "logit_bias":{},"logprobs":false,"top_logprobs":0,"response_format":{"type":"text"})");
  EXPECT_EQ(request.generation.sampling.temperature, 1.0);
  EXPECT_TRUE(request.conversation.tools.empty());
}

// BC-53
TEST(ChatRequest, MaxTokensIsAPositiveInteger) {
  EXPECT_EQ(accepted(R"("max_tokens":1)").generation.max_tokens, 1);
  EXPECT_EQ(accepted(R"("max_tokens":1e9)").generation.max_tokens, 1'000'000'000);
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(accepted(R"("max_tokens":9223372036854775808)").generation.max_tokens, kMost);
  EXPECT_EQ(accepted(R"("max_tokens":1e300)").generation.max_tokens, kMost);
  EXPECT_EQ(accepted(R"("max_tokens":9,"max_completion_tokens":4)").generation.max_tokens, 4);
  for (const std::string_view wrong : {"0", "-1", "\"5\"", "1.5", "-1e300", "[1]", "true"}) {
    expect_refused(fmt::format(R"("max_tokens":{})", wrong), "max_tokens");
  }
  expect_refused(R"("max_completion_tokens":0)", "max_completion_tokens");
}

// BC-54
TEST(ChatRequest, SamplingRanges) {
  EXPECT_EQ(accepted(R"("temperature":0)").generation.sampling.temperature, 0.0);
  EXPECT_EQ(accepted(R"("temperature":1e-45)").generation.sampling.temperature, 1e-45);
  EXPECT_EQ(accepted(R"("temperature":2)").generation.sampling.temperature, 2.0);
  EXPECT_EQ(accepted(R"("top_k":-1)").generation.sampling.top_k, 0);
  EXPECT_EQ(accepted(R"("top_k":1000000000)").generation.sampling.top_k, 1'000'000'000);
  accepted(R"("top_p":0)");
  accepted(R"("min_p":1)");
  for (const auto& [field, value] :
       {std::pair{"temperature", "-1"}, std::pair{"temperature", "2.01"},
        std::pair{"temperature", "\"NaN\""}, std::pair{"top_p", "1.5"}, std::pair{"top_p", "-0.1"},
        std::pair{"top_k", "-2"}, std::pair{"top_k", "1.5"}, std::pair{"min_p", "2"},
        std::pair{"presence_penalty", "3"}, std::pair{"frequency_penalty", "-3"},
        std::pair{"repetition_penalty", "0"}, std::pair{"seed", "1.5"},
        std::pair{"seed", "\"1\""}}) {
    expect_refused(fmt::format(R"("{}":{})", field, value), field);
  }
}

TEST(ChatRequest, StopIsAStringOrAFew) {
  EXPECT_EQ(accepted(R"("stop":"x")").generation.stop, std::vector<std::string>{"x"});
  std::string many = "\"a\"";
  for (int i = 1; i < 16; ++i) many += ",\"a\"";
  EXPECT_EQ(accepted(fmt::format(R"("stop":[{}])", many)).generation.stop.size(), 16U);
  expect_refused(fmt::format(R"("stop":[{},"a"])", many), "stop");
  expect_refused(R"("stop":5)", "stop");
  expect_refused(R"("stop":["a",5])", "stop[1]");
  expect_refused(R"("stop_token_ids":[-1])", "stop_token_ids");
  expect_refused(R"("stop_token_ids":["x"])", "stop_token_ids[0]");
}

// BC-56
TEST(ChatRequest, WhatIsNotServedIsRefusedByName) {
  for (const auto& [field, value] :
       {std::pair{"functions", "[]"}, std::pair{"response_format", R"({"type":"json_object"})"},
        std::pair{"tool_choice", "\"required\""},
        std::pair{"tool_choice", R"({"type":"function"})"}}) {
    expect_refused(fmt::format(R"("{}":{})", field, value), field, ErrorKind::kUnsupported);
  }
  accepted(R"("n":1)");
  EXPECT_EQ(accepted(R"("n":128)").n, 128);
  expect_refused(R"("n":0)", "n");
  expect_refused(R"("n":129)", "n");
  expect_refused(R"("tool_choice":"maybe")", "tool_choice");
  EXPECT_TRUE(accepted(R"("tools":[{"function":{"name":"f"}}],"tool_choice":"none")")
                  .conversation.tools.empty());
}

// BC-55
TEST(ChatRequest, LogProbabilities) {
  const auto n_top = [](std::string_view fields) {
    return accepted(fields).generation.sampling.n_top_logprobs;
  };
  EXPECT_EQ(n_top(""), std::nullopt);
  EXPECT_EQ(n_top(R"("logprobs":false)"), std::nullopt);
  EXPECT_EQ(n_top(R"("logprobs":true)"), 0);
  EXPECT_EQ(n_top(R"("logprobs":true,"top_logprobs":20)"), 20);
  expect_refused(R"("logprobs":true,"top_logprobs":21)", "top_logprobs");
  expect_refused(R"("logprobs":true,"top_logprobs":-1)", "top_logprobs");
  expect_refused(R"("logprobs":true,"top_logprobs":1.5)", "top_logprobs");
  expect_refused(R"("top_logprobs":2)", "top_logprobs");
  expect_refused(R"("logprobs":1)", "logprobs");
}

TEST(ChatRequest, TokensByTheirIds) {
  const SamplingOptions sampling =
      accepted(R"("logit_bias":{"5":-100,"7":1.5},"banned_token_ids":[3],"forced_token_ids":[4,4],
                  "min_tokens":2,"typical_p":0.5,"penalty_window":64)")
          .generation.sampling;
  EXPECT_EQ(sampling.logit_bias, (std::map<int32_t, double>{{5, -100.0}, {7, 1.5}}));
  EXPECT_EQ(sampling.banned_ids, std::vector<int32_t>{3});
  EXPECT_EQ(sampling.forced_ids, (std::vector<int32_t>{4, 4}));
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_EQ(sampling.typical_p, 0.5);
  EXPECT_EQ(sampling.penalty_window, 64);
  for (const std::string_view bias : {R"({"x":1})", R"({"-1":1})", R"({"5 ":1})", R"({"":1})",
                                      R"({"99999999999":1})", R"({"5":101})", "[]"}) {
    expect_refused(fmt::format(R"("logit_bias":{})", bias), "logit_bias");
  }
  expect_refused(R"("logit_bias":{"5":"1"})", "logit_bias.5");
  expect_refused(R"("banned_token_ids":[-1])", "banned_token_ids");
  expect_refused(R"("typical_p":1.5)", "typical_p");
  expect_refused(R"("min_tokens":-1)", "min_tokens");
}

TEST(ChatRequest, ParallelToolCalls) {
  EXPECT_TRUE(accepted("").parallel_tool_calls);
  EXPECT_FALSE(accepted(R"("parallel_tool_calls":false)").parallel_tool_calls);
  expect_refused(R"("parallel_tool_calls":"no")", "parallel_tool_calls");
}

TEST(ChatRequest, WrongTypesNameTheField) {
  for (const std::string_view field : {"model", "temperature", "stream", "stop", "tools",
                                       "logprobs", "ignore_eos", "stop_token_ids"}) {
    expect_refused(fmt::format(R"("{}":{{"a":1}})", field), field);
  }
  expect_refused(R"("stream_options":5)", "stream_options");
  expect_refused(R"("stream_options":{"include_usage":1})", "stream_options.include_usage");
  expect_refused(R"("response_format":{"type":1})", "response_format.type");
}

// BC-40
TEST(ChatRequest, BodiesThatAreNone) {
  for (const std::string whole : {"", "{", "nonsense", "{\"messages\":[}", "\"\xff\"", "{}}"}) {
    EXPECT_EQ(refused(whole).kind, ErrorKind::kInvalidData) << whole;
  }
  EXPECT_EQ(refused("[]").kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(refused("{}").param, "messages");
  EXPECT_EQ(refused(R"({"messages":null})").param, "messages");
  EXPECT_EQ(refused(R"({"messages":[]})").param, "messages");
  EXPECT_EQ(refused(std::string(100'000, '[')).kind, ErrorKind::kInvalidData);
  std::string wide = "{\"a\":0";
  for (int i = 0; i < 100'000; ++i) wide += fmt::format(",\"k{}\":0", i);
  EXPECT_EQ(refused(wide + "}").kind, ErrorKind::kInvalidData);
}

}  // namespace
}  // namespace penstock
