#include "cli/client/completion_stream.h"

#include <gmock/gmock.h>

#include <string>

namespace penstock {
namespace {

using testing::HasSubstr;
using Cause = CallFailure::Cause;

struct Told {
  std::string text;
  std::string reasoning;
  int n_deltas = 0;
  int n_calls = 0;
};

// The stream may be read in one piece: how it is cut is the SseReader's business.
struct Reading {
  Told told = {};
  CompletionStream stream{[this](const StreamDelta& delta) {
    told.text += delta.text;
    told.reasoning += delta.reasoning;
    told.n_calls += delta.has_tool_call ? 1 : 0;
    ++told.n_deltas;
  }};
  bool feed(const std::string& json) { return stream.feed("data: " + json + "\n\n"); }
};

TEST(CompletionStream, ChatWithReasoningUsageAndEnd) {
  Reading reading;
  reading.feed(R"({"choices":[{"delta":{"role":"assistant","content":null}}]})");
  reading.feed(
      R"({"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":null}],"usage":null})");
  reading.feed(R"({"choices":[{"delta":{"content":"a"}}]})");
  reading.feed(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})");
  reading.feed(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})");
  reading.feed(R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}})");
  EXPECT_TRUE(reading.stream.feed("data: [DONE]\n\n"));
  EXPECT_EQ(reading.told.text, "a");
  EXPECT_EQ(reading.told.reasoning, "hm");
  EXPECT_EQ(reading.told.n_calls, 1);
  EXPECT_EQ(reading.told.n_deltas, 3);  // the role alone is no output
  EXPECT_EQ(reading.stream.finish_reason(), "stop");
  EXPECT_EQ(reading.stream.usage().value().prompt_tokens, 7);
  EXPECT_EQ(reading.stream.usage().value().completion_tokens, 2);
  EXPECT_EQ(reading.stream.failure("u"), std::nullopt);
}

TEST(CompletionStream, CompletionsRouteAndNoUsage) {
  Reading reading;
  reading.feed(R"({"choices":[{"text":"a"}]})");
  reading.feed(R"({"choices":[{"text":"","finish_reason":"length"}]})");
  EXPECT_EQ(reading.told.text, "a");
  EXPECT_EQ(reading.told.n_deltas, 1);
  EXPECT_EQ(reading.stream.usage(), std::nullopt);
  EXPECT_EQ(reading.stream.failure("u"), std::nullopt);  // an end without [DONE] is an end
}

TEST(CompletionStream, FieldsOfAnyTypeArePassedOver) {
  Reading reading;
  for (const char* event : {"7", "null", "[]", R"({"choices":7})", R"({"choices":[7]})",
                            R"({"choices":[{"delta":7,"finish_reason":7}],"usage":7})",
                            R"({"choices":[{"delta":{"content":7,"tool_calls":7}}]})",
                            R"({"usage":{"prompt_tokens":-1,"completion_tokens":"x"}})"}) {
    EXPECT_TRUE(reading.feed(event)) << event;
  }
  EXPECT_EQ(reading.told.n_deltas, 0);
  EXPECT_EQ(reading.stream.usage(), std::nullopt);
}

TEST(CompletionStream, AnErrorObjectEndsIt) {
  Reading reading;
  reading.feed(R"({"choices":[{"delta":{"content":"a"}}]})");
  EXPECT_FALSE(reading.feed(R"({"error":{"message":"out of \u001b[2J pages","code":500}})"));
  const auto failure = reading.stream.failure("http://h");
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->cause, Cause::kInStream);
  EXPECT_EQ(failure->message, "http://h: out of  [2J pages");  // no escape sequence
}

TEST(CompletionStream, WhatIsNoAnswerSaysSo) {
  Reading cut;
  cut.feed(R"({"choices":[{"delta":{"content":"a"}}]})");
  EXPECT_EQ(cut.stream.failure("u").value().cause, Cause::kCut);

  Reading no_stream;
  no_stream.stream.feed(R"({"choices":[{"message":{"content":"a"}}]})");
  EXPECT_THAT(no_stream.stream.failure("u").value().message, HasSubstr("no stream of events"));

  Reading no_json;
  EXPECT_FALSE(no_json.feed("{"));
  EXPECT_THAT(no_json.stream.failure("u").value().message,
              HasSubstr("no JSON: invalid JSON at line 1"));
}

TEST(ErrorMessage, OfEveryKnownShape) {
  EXPECT_EQ(error_message(R"({"error":{"message":"a\nb"}})"), "a b");
  EXPECT_EQ(error_message(R"({"error":"a"})"), "a");
  EXPECT_EQ(error_message(R"({"message":"a"})"), "a");
  EXPECT_EQ(error_message(R"({"detail":"a"})"), "a");
  EXPECT_EQ(error_message(R"({"detail":[1]})"), "");
  EXPECT_EQ(error_message("<html>"), "");
  EXPECT_EQ(error_message("[]"), "");
}

}  // namespace
}  // namespace penstock
