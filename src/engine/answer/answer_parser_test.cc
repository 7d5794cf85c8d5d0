// The cases BC-45 to BC-52, and what every way of writing calls has of its own.
#include "engine/answer/answer_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "engine/answer/answer_scripts.h"

namespace penstock {
namespace {

constexpr auto kHermes = ToolForm::kHermes;
constexpr auto kCoder = ToolForm::kQwen3Coder;
constexpr auto kLlama = ToolForm::kLlama3;
constexpr auto kMistral = ToolForm::kMistral;

using Calls = std::vector<ScriptCall>;

// The text is content, all of it.
void expect_text(ToolForm form, const std::string& text) {
  const Seen seen = parse_every_way(form, text);
  EXPECT_EQ(seen.content, text);
  EXPECT_EQ(seen.calls, Calls{});
}

void expect_calls(ToolForm form, std::string_view text, const Calls& calls,
                  std::string_view content = {}) {
  const Seen seen = parse_every_way(form, text);
  EXPECT_EQ(seen.calls, calls) << text;
  EXPECT_EQ(seen.content, content) << text;
  EXPECT_FALSE(seen.cut) << text;
}

TEST(AnswerParser, HermesCall) {
  expect_calls(
      kHermes,
      "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a b\"}}\n</tool_call>",
      {{"read", R"({"path":"a b"})"}});
  // The order of the first Hermes models.
  expect_calls(kHermes, R"(<tool_call>{"arguments": {"path": "a"}, "name": "read"}</tool_call>)",
               {{"read", R"({"path":"a"})"}});
  expect_calls(kHermes, R"(<tool_call>{"id": 5, "name": "read", "parameters": {}, "x": [1, "y"]})",
               {{"read", "{}"}});
  // Two in one pair of tags.
  expect_calls(kHermes, R"(<tool_call>{"name":"now"} {"name":"read_all"}</tool_call>)",
               {{"now", "{}"}, {"read_all", "{}"}});
}

TEST(AnswerParser, HermesArgumentsThatAreText) {
  expect_calls(
      kHermes,
      R"(<tool_call>{"name": "read", "arguments": "{\"path\": \"\\\"q\\\"\"}"}</tool_call>)",
      {{"read", R"({"path":"\"q\""})"}});
  expect_calls(kHermes, R"(<tool_call>{"name": "now", "arguments": ""}</tool_call>)",
               {{"now", "{}"}});
  expect_text(kHermes, R"(<tool_call>{"name": "now", "arguments": "later"}</tool_call>)");
  expect_text(kHermes, R"(<tool_call>{"name": "now", "arguments": [1]}</tool_call>)");
}

TEST(AnswerParser, CoderCall) {
  expect_calls(kCoder,
               "<tool_call>\n<function=read>\n<parameter=path>\na b\n</parameter>\n"
               "<parameter=limit>\n3\n</parameter>\n</function>\n</tool_call>",
               {{"read", R"({"path":"a b","limit":3})"}});
  expect_calls(kCoder, "<function=read><parameter=path>x</parameter></function>",
               {{"read", R"({"path":"x"})"}});
  // One line end on each side is the tags', others are the value's.
  expect_calls(kCoder, "<function=read><parameter=path>\n\nx\n\n</parameter></function>",
               {{"read", R"({"path":"\nx\n"})"}});
  expect_calls(kCoder, "<function=read><parameter=path></parameter></function>",
               {{"read", R"({"path":""})"}});
  expect_calls(kCoder, "<function=read><parameter=new \"one\">\n5\n</parameter></function>",
               {{"read", R"({"new \"one\"":"5"})"}});
  expect_calls(kCoder, R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)",
               {{"now", "{}"}});
}

TEST(AnswerParser, LlamaCall) {
  expect_calls(kLlama, R"({"name": "read", "parameters": {"path": "a"}})",
               {{"read", R"({"path":"a"})"}});
  expect_calls(
      kLlama,
      R"(<|python_tag|>{"name": "now", "parameters": {}}; {"type": "function", "name": "read", "parameters": {"path": "b"}})",
      {{"now", "{}"}, {"read", R"({"path":"b"})"}});
  expect_calls(kLlama, R"(I look. <|python_tag|>{"name": "now", "parameters": {}})",
               {{"now", "{}"}}, "I look.");
  expect_text(kLlama, R"({"answer": 42, "name": "read"})");
  expect_text(kLlama, R"(The call would be {"name": "read", "parameters": {}}.)");
  expect_text(kLlama, R"(<|python_tag|>print("hi"))");
  expect_calls(kLlama, R"({"name": "now", "parameters": {}}; so it is.)", {{"now", "{}"}},
               "; so it is.");
}

TEST(AnswerParser, MistralCall) {
  expect_calls(
      kMistral,
      R"([TOOL_CALLS][{"name": "read", "arguments": {"path": "a"}}, {"name": "now", "arguments": {}}])",
      {{"read", R"({"path":"a"})"}, {"now", "{}"}});
  expect_calls(kMistral, R"([TOOL_CALLS] [{"name": "now", "arguments": {}, "id": "abcdefghi"}])",
               {{"now", "{}"}});
  expect_calls(kMistral, R"(Let me see.[TOOL_CALLS]read[ARGS]{"path": "a"}[TOOL_CALLS]now[ARGS]{})",
               {{"read", R"({"path":"a"})"}, {"now", "{}"}}, "Let me see.");
  expect_calls(kMistral, R"([TOOL_CALLS]read_all[CALL_ID]123456789[ARGS]{"deep": true})",
               {{"read_all", R"({"deep":true})"}});
  expect_calls(kMistral, R"([TOOL_CALLS]read{"path": "x"})", {{"read", R"({"path":"x"})"}});
  expect_text(kMistral, "[TOOL_CALLS]reader[ARGS]{}");
  expect_text(kMistral, "[TOOL_CALLS]rea[ARGS]{}");
  expect_text(kMistral, "[TOOL_CALLS]read[ARGUMENTS]{}");
  expect_text(kMistral, "a list: [1, 2], [TOOL");
}

// Its template refuses ids of another length.
TEST(AnswerParser, MistralIdsHaveNineCharacters) {
  const Seen seen = parse_every_way(kMistral, "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now[ARGS]{}");
  ASSERT_EQ(seen.ids.size(), 2U);
  for (const std::string& id : seen.ids) {
    EXPECT_EQ(id.size(), 9U);
    EXPECT_EQ(
        id.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
        std::string::npos);
  }
}

// What templates make of a call in a conversation is what their models were taught to write:
// parsed, it is the call again. `begin` and `end` stand around it in the rendered text of the
// golden case; where that writes a model's marker otherwise, it is put back.
TEST(AnswerParser, WhatTemplatesMakeOfACallIsThatCall) {
  struct Case {
    ToolForm form;
    std::string_view name, begin, end, marker, of_model;
  };
  constexpr Case kCases[] = {
      {kLlama, "llama tool dict", "<|head|>assistant<|/head|>\n\n", "<|eot|>", "", ""},
      {kHermes, "qwen call arguments", "<|im_start|>assistant\n", "<|im_end|>", "", ""},
      {kMistral, "mistral tools", "[CALLS]", "</s>", "[CALLS]", "[TOOL_CALLS]"},
  };
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/golden/templates.json");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const OrderedJson golden = parse_ordered_json(text).value();
  for (const Case& of : kCases) {
    const auto found = std::ranges::find_if(
        golden.at("cases"), [&](const OrderedJson& each) { return each.at("name") == of.name; });
    ASSERT_NE(found, golden.at("cases").end()) << of.name;
    const OrderedJson& inputs = found->at("inputs");
    const auto message = std::ranges::find_if(
        inputs.at("messages"), [](const OrderedJson& each) { return each.contains("tool_calls"); });
    const OrderedJson& call = message->at("tool_calls").at(0).at("function");

    const auto rendered = found->at("rendered").get<std::string>();
    size_t begin = rendered.find(of.begin);
    ASSERT_NE(begin, std::string::npos) << of.name;
    if (of.marker.empty()) begin += of.begin.size();
    std::string answer = rendered.substr(begin, rendered.find(of.end, begin) - begin);
    answer.replace(0, of.marker.size(), of.of_model);

    AnswerParserOptions options = script_options(of.form);
    options.tools = DeclaredTools(inputs.value("tools", OrderedJson::parse(R"([{"type": "function",
        "function": {"name": "get_weather"}}])")));
    const Seen seen = parse_every_way(options, answer);
    ASSERT_EQ(seen.calls.size(), 1U) << answer;
    EXPECT_EQ(seen.calls[0].name, call.at("name").get<std::string>()) << of.name;
    EXPECT_EQ(parse_ordered_json(seen.calls[0].arguments).value(), call.at("arguments"));
    EXPECT_EQ(seen.content, "") << of.name;
  }
}

TEST(AnswerParser, Bc45_ParallelCallsAndTextAroundThem) {
  constexpr std::string_view kText =
      "I read both.\n"
      "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>\n"
      "Then:\n"
      "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"b\", \"limit\": "
      "2}}\n</tool_call>\n"
      "Done.";
  const Seen seen = parse_every_way(kHermes, kText);
  EXPECT_EQ(seen.calls,
            (Calls{{"read", R"({"path":"a"})"}, {"read", R"({"path":"b","limit":2})"}}));
  EXPECT_EQ(seen.content, "I read both.\nThen:\nDone.");
  EXPECT_EQ(std::set(seen.ids.begin(), seen.ids.end()).size(), 2U);

  constexpr std::string_view kXml =
      "A<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</"
      "tool_call>\n"
      "<tool_call>\n<function=read>\n<parameter=path>\nb\n</parameter>\n</function>\n</tool_call> "
      "B";
  expect_calls(kCoder, kXml, {{"read", R"({"path":"a"})"}, {"read", R"({"path":"b"})"}}, "A B");
}

TEST(AnswerParser, Bc46_ValuesWithEverythingInThem) {
  const std::string value =
      "if (a < b) { say(\"</parameter>\"); } \\ <parameter>\n\t</function> {\"k\": [1]} "
      "\xF0\x9F\x98\x80";
  const Seen seen = parse_every_way(
      kCoder,
      "<tool_call>\n<function=write>\n<parameter=text>\n" + value +
          "\n</parameter>\n<parameter=list>\n[1, {\"a\": \"}\"}]\n</parameter>\n"
          "<parameter=place>\n{\"x\" : {\"y\": []}}\n</parameter>\n</function>\n</tool_call>");
  ASSERT_EQ(seen.calls.size(), 1U);
  const Json arguments = parse_json(seen.calls[0].arguments).value();
  EXPECT_EQ(arguments["text"], value);
  EXPECT_EQ(arguments["list"], Json::parse(R"([1, {"a": "}"}])"));
  EXPECT_EQ(arguments["place"], Json::parse(R"({"x": {"y": []}})"));
  EXPECT_EQ(seen.content, "");

  const Json object = {{"path", value + "</tool_call>"}};
  expect_calls(
      kHermes,
      "<tool_call>\n{\"name\": \"read\", \"arguments\": " + object.dump() + "}\n</tool_call>",
      {{"read", object.dump()}});
}

TEST(AnswerParser, Bc46_EscapesPassAsTheyAre) {
  expect_calls(
      kHermes,
      R"(<tool_call>{"name":"read","arguments":{"path":"\ud83d\ude00\n\u00e9\/"}}</tool_call>)",
      {{"read", R"({"path":"\ud83d\ude00\n\u00e9\/"})"}});
}

TEST(AnswerParser, Bc47_NoArgumentsAreAnEmptyObject) {
  expect_calls(kHermes, R"(<tool_call>{"name": "now"}</tool_call>)", {{"now", "{}"}});
  expect_calls(kHermes, R"(<tool_call>{"name": "now", "arguments": null}</tool_call>)",
               {{"now", "{}"}});
  expect_calls(kHermes, "<tool_call>{\"name\": \"read_all\", \"arguments\": { \n}}</tool_call>",
               {{"read_all", "{}"}});
  expect_calls(kCoder, "<tool_call>\n<function=now>\n</function>\n</tool_call>", {{"now", "{}"}});
  expect_calls(kCoder, "<tool_call><function=read_all></tool_call>", {{"read_all", "{}"}});
  expect_calls(kMistral, "[TOOL_CALLS]now[ARGS]{ }", {{"now", "{}"}});
  expect_calls(kLlama, R"({"name": "now"})", {{"now", "{}"}});
}

TEST(AnswerParser, Bc48_TypesOfTheSchema) {
  const auto argument = [](std::string_view name, std::string_view value) {
    const Seen seen = parse_every_way(
        kCoder, fmt::format("<tool_call>\n<function=write>\n<parameter={}>\n{}\n</parameter>\n"
                            "</function>\n</tool_call>",
                            name, value));
    EXPECT_EQ(seen.calls.size(), 1U);
    const std::string& json = seen.calls.at(0).arguments;
    EXPECT_TRUE(parse_json(json)) << json;
    const size_t prefix = std::string_view("{\"\":").size() + name.size();
    return json.substr(prefix, json.size() - prefix - 1);
  };
  EXPECT_EQ(argument("count", "3"), "3");
  EXPECT_EQ(argument("count", "-12"), "-12");
  EXPECT_EQ(argument("count", "3.0"), "3.0");
  EXPECT_EQ(argument("count", "3.5"), R"("3.5")");
  EXPECT_EQ(argument("count", "007"), R"("007")");
  EXPECT_EQ(argument("count", "text"), R"("text")");
  EXPECT_EQ(argument("ratio", "3.5e2"), "3.5e2");
  EXPECT_EQ(argument("ratio", "1e400"), R"("1e400")");
  EXPECT_EQ(argument("ratio", "NaN"), R"("NaN")");
  EXPECT_EQ(argument("force", "true"), "true");
  EXPECT_EQ(argument("force", "False"), "false");
  EXPECT_EQ(argument("force", "yes"), R"("yes")");
  EXPECT_EQ(argument("nothing", "null"), "null");
  EXPECT_EQ(argument("text", "true"), R"("true")");
  EXPECT_EQ(argument("text", "null"), R"("null")");
  EXPECT_EQ(argument("list", "[1, 2, {\"a\": []}]"), R"([1,2,{"a":[]}])");
  EXPECT_EQ(argument("list", "[1, 2"), R"("[1, 2")");
  EXPECT_EQ(argument("place", "{\"x\": 12345678901234567890123}"),
            R"({"x":12345678901234567890123})");
  EXPECT_EQ(argument("maybe", "None"), "null");
  EXPECT_EQ(argument("maybe", "4"), "4");
  EXPECT_EQ(argument("either", "4"), "4");
  EXPECT_EQ(argument("either", "4 or 5"), R"("4 or 5")");
  EXPECT_EQ(argument("undeclared", "5"), R"("5")");
}

TEST(AnswerParser, Bc48_BareWordsInJson) {
  expect_calls(
      kHermes,
      R"(<tool_call>{"name":"write","arguments":{"count": 3, "force": True, "text": text, "ratio": 007,)"
      R"( "list": [1e400, None,], "place": {"a": {}}}}</tool_call>)",
      {{"write", R"({"count":3,"force":true,"text":"text","ratio":"007",)"
                 R"("list":["1e400",null],"place":{"a":{}}})"}});
}

TEST(AnswerParser, Bc49_WithoutClosingTagsTheCallIsWhole) {
  for (const std::string_view ending : {"", "}", "}\n</tool_cal", "}\n</tool_call>"}) {
    expect_calls(kHermes,
                 fmt::format(R"(<tool_call>{{"name":"read","arguments":{{"path":"a"}}{})", ending),
                 {{"read", R"({"path":"a"})"}});
  }
  for (const std::string_view ending :
       {"", "\n", "\n</func", "\n</function>", "\n</function>\n</tool_cal", "\n<parameter"}) {
    expect_calls(
        kCoder,
        fmt::format("<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>{}", ending),
        {{"read", R"({"path":"a"})"}});
  }
  // What is no closing tag is text, behind the call.
  expect_calls(kHermes, R"(<tool_call>{"name":"now"}</tool_cal> and on)", {{"now", "{}"}},
               "</tool_cal> and on");
  // A parameter that is not closed, in a call that is.
  expect_calls(kCoder, "<tool_call><function=read><parameter=path>\na\n</function>\n</tool_call>",
               {{"read", R"({"path":"a"})"}});
}

TEST(AnswerParser, Bc49_CutInsideItsArgumentsACallIsIncomplete) {
  const auto cut = [](ToolForm form, std::string_view text) {
    const Seen seen = parse_every_way(form, text);
    EXPECT_TRUE(seen.cut) << text;
    EXPECT_EQ(seen.content, "") << text;
    return seen.calls.at(0).arguments;
  };
  EXPECT_EQ(cut(kHermes, R"(<tool_call>{"name":"read","arguments":{"path":"a)"), R"({"path":"a)");
  EXPECT_EQ(cut(kHermes, R"(<tool_call>{"name":"read","arguments":{"limit": 12)"),
            R"({"limit":12)");
  EXPECT_EQ(cut(kHermes, R"(<tool_call>{"name":"read","arguments":{"path":"a\u00)"),
            R"({"path":"a\u00)");
  EXPECT_EQ(cut(kHermes, R"(<tool_call>{"name":"read","arguments":{"path":"a",)"),
            R"({"path":"a",)");
  EXPECT_EQ(cut(kLlama, R"({"name":"read","parameters":{)"), "{");
  EXPECT_EQ(cut(kMistral, R"([TOOL_CALLS]read[ARGS]{"path")"), R"({"path")");
  EXPECT_EQ(cut(kCoder, "<function=read><parameter=path>\na b"), R"({"path":"a b)");
  EXPECT_EQ(cut(kCoder, "<function=read><parameter=limit>\n12"), R"({"limit":12)");
  EXPECT_EQ(cut(kCoder, "<function=read><parameter=path>\na</para"), R"({"path":"a</para)");
  EXPECT_EQ(cut(kCoder, "<function=read><parameter=path>a</parameter><parameter=lim"),
            R"({"path":"a","lim)");
}

TEST(AnswerParser, Bc49_CutBeforeItIsOneACallIsText) {
  for (const std::string text :
       {"<tool_call>", "<tool_", "so\n<tool_call>\n{\"name\": \"read\"",
        "<tool_call>{\"name\":\"re", "<tool_call>{\"arguments\":{\"path\":\"a\"}", " \n"}) {
    expect_text(kHermes, text);
  }
  expect_text(kCoder, "<tool_call>\n<function=read>\n<para");
  expect_text(kMistral, "[TOOL_CALLS]read[ARGS]");
}

TEST(AnswerParser, Bc49_ArgumentsThatAreNoJsonPassAsTheyAre) {
  expect_calls(kHermes, R"(<tool_call>{"name":"read","arguments":{"path" "a"}}</tool_call> ok)",
               {{"read", R"({"path""a"}})"}}, " ok");
  expect_calls(kHermes, "<tool_call>{\"name\":\"read\",\"arguments\":{\"path\":</tool_call>",
               {{"read", R"({"path":)"}});
}

TEST(AnswerParser, Bc50_ArgumentsComeAsTheyAreWritten) {
  std::string value;
  for (int i = 0; value.size() < 2000; ++i) value += fmt::format("line {}: \"{}\"\n", i, i * i);
  const Json arguments = {{"path", value}};
  const std::string xml = fmt::format(
      "<tool_call>\n<function=read>\n<parameter=path>\n{}\n</parameter>"
      "\n</function>\n</tool_call>",
      value);
  const std::string json = fmt::format(
      "<tool_call>\n{{\"name\": \"read\", \"arguments\": {}}}\n</tool_call>", arguments.dump());
  for (const std::string& text : {json, xml}) {
    AnswerParser parser(script_options(kCoder));
    Seen seen;
    size_t n_deltas = 0;
    for (size_t at = 0; at < text.size(); at += 4) {
      const AnswerDelta delta = parser.push(text.substr(at, 4));
      ASSERT_LE(delta.calls.size(), 1U);
      for (const ToolCallDelta& call : delta.calls) {
        ++n_deltas;
        // Four bytes read, two of them escaped at most, and what a tag's first bytes held back.
        EXPECT_LE(call.arguments.size(), 24U);
      }
      seen.add(delta);
    }
    seen.add(parser.finish());
    EXPECT_GT(n_deltas, 400U);
    ASSERT_EQ(seen.calls.size(), 1U);
    EXPECT_EQ(parse_json(seen.calls[0].arguments).value(), arguments);
  }
}

TEST(AnswerParser, Bc51_TextAboutCallsIsText) {
  for (const std::string text :
       {"Calls stand in `<tool_call>` and `</tool_call>`.", "<tool_call> is a tag.",
        "<tool_call>\n{\"name\": \"unlink\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"read_\", \"arguments\": {}}\n</tool_call>",
        "<tool_call><function=reads></function></tool_call>",
        "<tool_call>{\"title\": \"read\"}</tool_call>", "<tool_call>[]</tool_call>",
        "See:\n```xml\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n```\nSo.",
        "~~~\n```\n<tool_call>{\"name\": \"now\"}</tool_call>\n~~~", "a < b <too <<tool_cal  \n\n<",
        "<tool_call><function=read>text</function></tool_call>"}) {
    expect_text(kHermes, text);
    expect_text(kCoder, text);
  }
  // Behind the fence, and behind a mention, calls are calls again.
  expect_calls(kHermes, "```\nx\n```\n<tool_call>{\"name\": \"now\"}</tool_call>", {{"now", "{}"}},
               "```\nx\n```");
  expect_calls(kHermes, "A <tool_call> follows. <<tool_call>{\"name\": \"now\"}</tool_call>",
               {{"now", "{}"}}, "A <tool_call> follows. <");
  expect_calls(kHermes, "<tool_call>{\"nix<tool_call>{\"name\": \"now\"}</tool_call>",
               {{"now", "{}"}}, "<tool_call>{\"nix");
}

TEST(AnswerParser, Bc51_WithoutToolsMarkupIsText) {
  const std::string text =
      "Hm. <tool_call>\n{\"name\": \"read\", \"arguments\": {}}\n</tool_call>\n";
  for (const ToolForm form : {kHermes, kCoder, kLlama, kMistral}) {
    const Seen seen = parse_every_way({.format = {.tools = form}}, text);
    EXPECT_EQ(seen.content, text);
    EXPECT_TRUE(seen.calls.empty());
  }
  expect_text(ToolForm::kNone, text);
}

TEST(AnswerParser, Bc52_StrayClosingTagsAreNotShown) {
  for (const std::string_view stray :
       {"</function>", "</function>\n</function_invocation>\n</tool_call>",
        "</tool_call>\n</tool_call>", "}\n</tool_call>", "</parameter></function></tool_call>"}) {
    expect_calls(kHermes,
                 fmt::format(R"(<tool_call>{{"name":"read","arguments":{{"path":"a"}}}}{})", stray),
                 {{"read", R"({"path":"a"})"}});
    expect_calls(
        kCoder,
        fmt::format("<tool_call><function=read><parameter=path>a</parameter></function>{}", stray),
        {{"read", R"({"path":"a"})"}});
  }
  expect_calls(kCoder,
               "<function=now></function></function></tool_call></tool_call>"
               "<function=now></function>",
               {{"now", "{}"}, {"now", "{}"}});
  // Elsewhere they are text like any other.
  expect_text(kHermes, "</tool_call></function>");
}

TEST(AnswerParser, OneCallMayBeAllThatIsWanted) {
  AnswerParserOptions options = script_options(kHermes);
  options.parallel_calls = false;
  const std::string call = R"(<tool_call>{"name":"now","arguments":{}}</tool_call>)";
  const Seen seen = parse_every_way(options, "First. " + call + call + " more");
  EXPECT_EQ(seen.calls, (Calls{{"now", "{}"}}));
  EXPECT_EQ(seen.content, "First.");

  AnswerParser parser(options);
  parser.push(R"(<tool_call>{"name":"now","arguments":{})");
  EXPECT_FALSE(parser.is_satisfied());
  parser.push("}");
  EXPECT_TRUE(parser.is_satisfied());
}

AnswerParserOptions thinking(bool opened_by_prompt) {
  AnswerParserOptions options = script_options(kHermes);
  options.format.reasoning = kThinkTags;
  options.opened_by_prompt = opened_by_prompt;
  return options;
}

TEST(AnswerParser, ReasoningIsSplitOff) {
  const std::string call = "<tool_call>{\"name\":\"now\"}</tool_call>";
  for (const auto& [opened, text] : {std::pair(false, "\n<think>\nHm,\n\nok.\n</think>\n\nHi."),
                                     std::pair(true, "\nHm,\n\nok.\n</think>\n\nHi."),
                                     std::pair(true, "<think>\nHm,\n\nok.\n</think>\n\nHi.")}) {
    const Seen seen = parse_every_way(thinking(opened), text + call);
    EXPECT_EQ(seen.reasoning, "Hm,\n\nok.");
    EXPECT_EQ(seen.content, "Hi.");
    EXPECT_EQ(seen.calls.size(), 1U);
  }
  // Calls that are only thought of are none.
  const Seen thought = parse_every_way(thinking(true), "Perhaps " + call + "?</think>No.");
  EXPECT_EQ(thought.reasoning, "Perhaps " + call + "?");
  EXPECT_EQ(thought.content, "No.");
}

TEST(AnswerParser, ReasoningCutShort) {
  EXPECT_EQ(parse_every_way(thinking(true), "Hm\n</thi").reasoning, "Hm\n</thi");
  EXPECT_EQ(parse_every_way(thinking(false), "<think>Hm\n").reasoning, "Hm\n");
  EXPECT_EQ(parse_every_way(thinking(false), " <thi").content, " <thi");
  EXPECT_EQ(parse_every_way(thinking(true), "<thi").reasoning, "<thi");
  const Seen empty = parse_every_way(thinking(false), "<think>\n\n</think>\n\nHi");
  EXPECT_EQ(empty.reasoning, "");
  EXPECT_EQ(empty.content, "Hi");
}

TEST(AnswerParser, Bc33_TagsInTheTextDoNotShiftTheSplit) {
  for (const std::string text : {"Hi </think> there", "Say <think>x</think>", "  \n<thin>"}) {
    EXPECT_EQ(parse_every_way(thinking(false), text).content, text);
  }
  const Seen seen = parse_every_way(thinking(false), "<think>a<think>b</think>c</think>d");
  EXPECT_EQ(seen.reasoning, "a<think>b");
  EXPECT_EQ(seen.content, "c</think>d");
  AnswerParserOptions plain = script_options(kHermes);
  EXPECT_EQ(parse_every_way(plain, "<think>\nx</think>").content, "<think>\nx</think>");
}

TEST(AnswerParser, DepthAndLengthAreBounded) {
  const std::string deep(100'000, '[');
  const std::string text = R"(<tool_call>{"name":"read","arguments":{"path":)" + deep;
  const Seen nested = parse_pieces(script_options(kHermes), {text});
  EXPECT_TRUE(nested.cut);
  EXPECT_EQ(nested.calls.at(0).arguments, R"({"path":)" + deep) << "as it is, though no JSON";

  // Held until its name comes, but not without end.
  const std::string big = R"(<tool_call>{"arguments":{"path":")" + std::string(300'000, 'x') +
                          R"("},"name":"read"}</tool_call>)";
  const Seen seen = parse_pieces(script_options(kHermes), {big});
  EXPECT_EQ(seen.content, big);
  EXPECT_TRUE(seen.calls.empty());
  const std::string fits = R"(<tool_call>{"arguments":{"path":")" + std::string(200'000, 'x') +
                           R"("},"name":"read"}</tool_call>)";
  EXPECT_EQ(parse_pieces(script_options(kHermes), {fits}).calls.size(), 1U);
}

// What looks like beginnings over and over costs no more than its length.
TEST(AnswerParser, BeginningsWithoutEndTakeLinearTime) {
  std::string text;
  while (text.size() < 1'000'000) text += R"(<tool_call>{"arguments":{"a":"</parameter>   )";
  EXPECT_EQ(parse_pieces(script_options(kHermes), {text}).content.size(), text.size());
  const std::string value = "</parameter>" + std::string(300'000, ' ') + "</parameter>";
  const Seen seen =
      parse_pieces(script_options(kCoder), {"<function=read><parameter=path>", value});
  EXPECT_EQ(seen.calls.at(0).arguments, "{\"path\":\"" + value.substr(0, 300'012) + "\"}");
}

}  // namespace
}  // namespace penstock
