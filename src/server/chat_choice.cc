#include "server/chat_choice.h"

#include <utility>

namespace penstock {
namespace {

void append(AnswerDelta& delta, AnswerDelta more) {
  delta.reasoning += more.reasoning;
  delta.content += more.content;
  for (ToolCallDelta& call : more.calls) {
    if (!delta.calls.empty() && delta.calls.back().index == call.index) {
      delta.calls.back().arguments += call.arguments;
    } else {
      delta.calls.push_back(std::move(call));
    }
  }
}

}  // namespace

ChoicePart ChatChoice::push(const OutputUpdate& update) {
  ChoicePart part{.delta = parser_.push(update.text), .tokens = update.tokens};
  if (!update.end && !parser_.is_satisfied()) return part;
  append(part.delta, parser_.finish());
  part.finish_reason = finish_reason(update.end ? (*update.end)->reason : FinishReason::kStop);
  return part;
}

// A call that is cut short is not offered as one to be run.
std::string_view ChatChoice::finish_reason(FinishReason reason) const {
  if (reason == FinishReason::kStop && parser_.has_calls() && !parser_.is_cut())
    return "tool_calls";
  return to_string(reason);
}

}  // namespace penstock
