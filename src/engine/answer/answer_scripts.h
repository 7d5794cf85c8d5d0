// For tests: answers as models write them, each with what a client must see, written by hand. Every
// script is parsed whole, byte by byte and in random pieces.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"
#include "engine/answer/answer_parser.h"

namespace penstock {

struct ScriptCall {
  std::string name = {};
  std::string arguments = {};

  bool operator==(const ScriptCall&) const = default;
  friend void PrintTo(const ScriptCall& call, std::ostream* os) {
    *os << call.name << " " << call.arguments;
  }
};

// What a client has put together from the deltas.
struct Seen {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ScriptCall> calls = {};
  std::vector<std::string> ids = {};
  bool cut = false;

  void add(const AnswerDelta& delta) {
    reasoning += delta.reasoning;
    content += delta.content;
    for (const ToolCallDelta& call : delta.calls) {
      if (call.index == calls.size()) {
        EXPECT_FALSE(call.id.empty() || call.name.empty()) << "the first of its index";
        calls.push_back({.name = call.name});
        ids.push_back(call.id);
      } else {
        EXPECT_EQ(call.index + 1, calls.size()) << "an earlier call goes on";
        EXPECT_TRUE(call.id.empty() && call.name.empty()) << "they come once";
      }
      calls.back().arguments += call.arguments;
    }
  }
  bool operator==(const Seen&) const = default;
};

inline constexpr ReasoningTags kThinkTags = {"<think>", "</think>"};

// Tools whose parameters are of every kind.
inline const DeclaredTools& script_tools() {
  static const DeclaredTools tools(parse_ordered_json(R"([
    {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {
      "path": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["path"]}}},
    {"type": "function", "function": {"name": "read_all", "parameters": {
      "type": "object", "properties": {"deep": {"type": "boolean"}}}}},
    {"type": "function", "function": {"name": "now"}},
    {"type": "function", "function": {"name": "write", "parameters": {
      "$defs": {"Place": {"type": "object"}}, "type": "object", "properties": {
      "text": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"},
      "force": {"type": "boolean"}, "nothing": {"type": "null"}, "list": {"type": "array"},
      "place": {"$ref": "#/$defs/Place"},
      "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
      "either": {"type": ["string", "integer"]}}}}}])")
                                       .value());
  return tools;
}

inline AnswerParserOptions script_options(ToolForm form) {
  return {.format = {.tools = form}, .tools = script_tools(), .seed = 7};
}

inline Seen parse_pieces(const AnswerParserOptions& options,
                         const std::vector<std::string_view>& pieces) {
  AnswerParser parser(options);
  Seen seen;
  for (const std::string_view piece : pieces) seen.add(parser.push(piece));
  seen.add(parser.finish());
  seen.cut = parser.is_cut();
  return seen;
}

inline std::vector<std::string_view> split_at_random(std::string_view text, uint32_t seed) {
  std::mt19937 random(seed);
  const size_t longest = 1 + random() % 24;
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t n = std::min<size_t>(text.size(), random() % (longest + 1));
    pieces.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return pieces;
}

// Of pieces that are whole characters, so is every part of the deltas.
inline void expect_whole_characters(const AnswerParserOptions& options, std::string_view text) {
  AnswerParser parser(options);
  while (!text.empty()) {
    const size_t n = utf8_front(text).length;
    const AnswerDelta delta = parser.push(text.substr(0, n));
    EXPECT_TRUE(is_utf8(delta.content) && is_utf8(delta.reasoning));
    for (const ToolCallDelta& call : delta.calls) EXPECT_TRUE(is_utf8(call.arguments));
    text.remove_prefix(n);
  }
}

// Parses the text in one piece, and checks that no other pieces give anything else.
inline Seen parse_every_way(const AnswerParserOptions& options, std::string_view text) {
  const Seen whole = parse_pieces(options, {text});
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  EXPECT_EQ(parse_pieces(options, bytes), whole) << "byte by byte: " << text;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(parse_pieces(options, split_at_random(text, seed)), whole)
        << "split with seed " << seed << ": " << text;
  }
  expect_whole_characters(options, text);
  return whole;
}

inline Seen parse_every_way(ToolForm form, std::string_view text) {
  return parse_every_way(script_options(form), text);
}

}  // namespace penstock
