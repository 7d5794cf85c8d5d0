// What announces a tool call in an answer, and what stands around it: one row for each way that
// models have been taught.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock {

enum class ToolForm : uint8_t {
  kNone,        // the model writes no calls that we know
  kHermes,      // <tool_call>{"name": ..., "arguments": {...}}</tool_call>
  kQwen3Coder,  // <tool_call><function=NAME><parameter=P>value</parameter></function></tool_call>
  kLlama3,      // {"name": ..., "parameters": {...}}, the whole answer or behind <|python_tag|>
  kMistral,     // [TOOL_CALLS][{"name": ..., "arguments": {...}}] or [TOOL_CALLS]name[ARGS]{...}
};

struct CallGrammar {
  std::span<const std::string_view> openers =
      {};                      // none begins another; a first byte is their only
  std::string_view lead = {};  // bytes that may stand between an opener and a call, as spaces may
  std::span<const std::string_view> closers = {};  // behind a call, any number of times
  std::string_view separators = {};                // bytes between two calls, as spaces are
  bool bare_first = false;                         // a '{' that begins the answer may be a call
  bool bare_next = false;                          // so may one behind a call
  bool tags = false;                               // <function=... may follow an opener
  bool names = false;                              // a tool's name may
  std::string_view terminator = {};                // where arguments end that are no JSON
};

CallGrammar call_grammar(ToolForm form);

}  // namespace penstock
