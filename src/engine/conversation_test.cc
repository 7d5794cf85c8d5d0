#include "engine/conversation.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

OrderedJson json(std::string_view text) { return parse_ordered_json(text).value(); }

OrderedJson normalized(std::string_view messages) {
  Conversation conversation{.messages = json(messages)};
  const auto done = normalize(conversation);
  EXPECT_TRUE(done) << done.error().text();
  return conversation.messages;
}

Error refusal(std::string_view messages, std::string_view tools = "[]") {
  Conversation conversation{.messages = json(messages), .tools = json(tools)};
  const auto done = normalize(conversation);
  if (done) {
    ADD_FAILURE() << "accepted " << messages;
    return {};
  }
  EXPECT_NE(done.error().message.find(done.error().param), std::string::npos)
      << "the message does not name the field: " << done.error().message;
  return done.error();
}

// BC-36
TEST(Conversation, NoContentIsEmptyContent) {
  const auto with = [](std::string_view content) {
    return normalized(fmt::format(
        R"([{{"role":"user","content":"6*7"}},
            {{"role":"assistant",{}"tool_calls":[{{"id":"c1","type":"function",
              "function":{{"name":"f","arguments":"{{\"x\": 1}}"}}}}]}},
            {{"role":"tool","tool_call_id":"c1","content":"42"}}])",
        content));
  };
  const OrderedJson expected = with(R"("content":"",)");
  EXPECT_EQ(expected[1]["content"], "");
  EXPECT_EQ(with(R"("content":null,)")[1]["content"], "");
  EXPECT_EQ(with("")[1]["content"], "");
  EXPECT_EQ(expected[1]["tool_calls"][0]["function"]["arguments"], json(R"({"x":1})"));
  EXPECT_EQ(expected[2]["tool_call_id"], "c1");
}

// BC-37
TEST(Conversation, NoToolCallsAreNoField) {
  for (const std::string_view calls : {"[]", "null"}) {
    const auto messages =
        normalized(fmt::format(R"([{{"role":"assistant","content":"x","tool_calls":{}}}])", calls));
    EXPECT_FALSE(messages[0].contains("tool_calls")) << calls;
  }
}

TEST(Conversation, ArgumentsThatAreNoObjectStayText) {
  const auto arguments = [](std::string_view text) {
    return normalized(fmt::format(R"([{{"role":"assistant","tool_calls":[
        {{"function":{{"name":"f","arguments":{}}}}}]}}])",
                                  text))[0]["tool_calls"][0]["function"]["arguments"];
  };
  EXPECT_EQ(arguments(R"("{broken")"), "{broken");
  EXPECT_EQ(arguments(R"("[1]")"), "[1]");
  EXPECT_EQ(arguments(R"("")"), OrderedJson::object());
  EXPECT_EQ(arguments(R"({"z":1,"a":2})").dump(), R"({"z":1,"a":2})");
  EXPECT_EQ(arguments(R"("{\"z\":1,\"a\":2}")").dump(), R"({"z":1,"a":2})") << "order kept";
}

// BC-39
TEST(Conversation, TextPartsArePutTogether) {
  const auto content = [](std::string_view value) {
    return normalized(fmt::format(R"([{{"role":"user","content":{}}}])", value))[0]["content"];
  };
  EXPECT_EQ(content(R"("hi")"), "hi");
  EXPECT_EQ(content(R"([{"type":"text","text":"hi"}])"), "hi");
  EXPECT_EQ(content(R"([{"type":"text","text":"h"},{"type":"text","text":"i"}])"), "hi");
  EXPECT_EQ(content("[]"), "");
}

// BC-38
TEST(Conversation, RolesStayWhereTheyAre) {
  const auto messages = normalized(
      R"([{"role":"user","content":"a"},{"role":"system","content":"b"},
          {"role":"system","content":"c"},{"role":"developer","content":"d","x-more":[1]}])");
  EXPECT_EQ(messages[1]["role"], "system");
  EXPECT_EQ(messages[3]["role"], "developer");
  EXPECT_EQ(messages[3]["x-more"], json("[1]"));
}

// BC-40
TEST(Conversation, WhatIsNoConversationIsRefusedByName) {
  EXPECT_EQ(refusal("[]").param, "messages");
  EXPECT_EQ(refusal("{}").param, "messages");
  EXPECT_EQ(refusal(R"("hi")").param, "messages");
  EXPECT_EQ(refusal(R"(["hi"])").param, "messages[0]");
  EXPECT_EQ(refusal(R"([{"content":"hi"}])").param, "messages[0].role");
  EXPECT_EQ(refusal(R"([{"role":7,"content":"hi"}])").param, "messages[0].role");
  EXPECT_EQ(refusal(R"([{"role":"user","content":"a"},{"role":"wizard","content":"hi"}])").param,
            "messages[1].role");
  EXPECT_EQ(refusal(R"([{"role":"user","content":5}])").param, "messages[0].content");
  EXPECT_EQ(refusal(R"([{"role":"user","content":["a"]}])").param, "messages[0].content[0]");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"text":"a"}]}])").param,
            "messages[0].content[0].type");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":"text","text":1}]}])").param,
            "messages[0].content[0].text");
  EXPECT_EQ(refusal(R"([{"role":"assistant","tool_calls":{"a":1}}])").param,
            "messages[0].tool_calls");
  EXPECT_EQ(refusal(R"([{"role":"assistant","tool_calls":[{"id":"1"}]}])").param,
            "messages[0].tool_calls[0].function");
  EXPECT_EQ(refusal(R"([{"role":"assistant","tool_calls":[{"function":{}}]}])").param,
            "messages[0].tool_calls[0].function.name");
  const std::string_view fine = R"([{"role":"user","content":"a"}])";
  EXPECT_EQ(refusal(fine, R"({"a":1})").param, "tools");
  EXPECT_EQ(refusal(fine, R"([5])").param, "tools[0]");
  EXPECT_EQ(refusal(fine, R"([{"type":"function"}])").param, "tools[0].function");
  EXPECT_EQ(refusal(fine, R"([{"function":{"name":null}}])").param, "tools[0].function.name");
}

TEST(Conversation, ImagesAreRefusedAloud) {
  const Error error = refusal(
      R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}])");
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_NE(error.message.find("image_url"), std::string::npos);
}

}  // namespace
}  // namespace penstock
