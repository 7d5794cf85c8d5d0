#include "engine/answer/call_grammar.h"

#include <array>

namespace penstock {
namespace {

using namespace std::string_view_literals;

constexpr std::array kHermesOpeners = {"<tool_call>"sv};
constexpr std::array kCoderOpeners = {"<tool_call>"sv, "<function="sv};  // the first gets forgotten
constexpr std::array kLlamaOpeners = {"<|python_tag|>"sv};
constexpr std::array kMistralOpeners = {"[TOOL_CALLS]"sv};

// Models close too often, and too much.
constexpr std::array kTagClosers = {"</tool_call>"sv,           "</function>"sv,
                                    "</parameter>"sv,           "</function_call>"sv,
                                    "</function_invocation>"sv, "}"sv};
constexpr std::array kMistralClosers = {"]"sv};

}  // namespace

CallGrammar call_grammar(ToolForm form) {
  switch (form) {
    case ToolForm::kNone:
      break;
    case ToolForm::kHermes:
      return {.openers = kHermesOpeners,
              .closers = kTagClosers,
              .bare_next = true,
              .tags = true,
              .terminator = "</tool_call>"};
    case ToolForm::kQwen3Coder:
      return {.openers = kCoderOpeners,
              .closers = kTagClosers,
              .tags = true,
              .terminator = "</tool_call>"};
    case ToolForm::kLlama3:
      return {.openers = kLlamaOpeners, .separators = ";", .bare_first = true, .bare_next = true};
    case ToolForm::kMistral:
      return {.openers = kMistralOpeners,
              .lead = "[",
              .closers = kMistralClosers,
              .separators = ",",
              .bare_next = true,
              .names = true};
  }
  return {};
}

}  // namespace penstock
