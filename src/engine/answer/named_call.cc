#include "engine/answer/named_call.h"

#include <array>

#include "engine/answer/text_scan.h"

namespace penstock {

CallReader::Step NamedCall::push(char byte, DeltaCollector& out) {
  switch (state_) {
    case State::kName:
      return push_name(byte, out);
    case State::kMark:
      return push_mark(byte);
    case State::kCallId:
      if (byte != '[') return byte == '{' ? Step::kNoCall : Step::kMore;
      state_ = State::kMark;
      return push_mark(byte);
    case State::kObject:
      return push_object(byte, out);
    case State::kArguments:
      break;
  }
  return push_arguments(byte, out);
}

CallReader::Step NamedCall::push_name(char byte, DeltaCollector& out) {
  if (byte != '[' && byte != '{' && !is_space(byte)) {
    name_ += byte;
    return tools_.any_begins(name_) ? Step::kMore : Step::kNoCall;
  }
  if (tools_.find(name_) == nullptr) return Step::kNoCall;
  if (byte == '[') {
    state_ = State::kMark;
    return push_mark(byte);
  }
  state_ = State::kObject;
  return push_object(byte, out);
}

CallReader::Step NamedCall::push_mark(char byte) {
  constexpr std::array<std::string_view, 2> kMarks = {"[ARGS]", "[CALL_ID]"};
  mark_ += byte;
  switch (match_any(mark_, kMarks)) {
    case Match::kNone:
      return Step::kNoCall;
    case Match::kBegun:
      return Step::kMore;
    case Match::kWhole:
      break;
  }
  state_ = mark_ == "[ARGS]" ? State::kObject : State::kCallId;
  mark_.clear();
  return Step::kMore;
}

CallReader::Step NamedCall::push_object(char byte, DeltaCollector& out) {
  if (is_space(byte)) return Step::kMore;
  if (byte != '{') return Step::kNoCall;
  begin(name_, out);
  state_ = State::kArguments;
  return push_arguments(byte, out);
}

CallReader::Step NamedCall::push_arguments(char byte, DeltaCollector& out) {
  if (arguments_.push(byte, out) != ArgumentsReader::Step::kDone) return Step::kMore;
  out.end_call();
  return Step::kDone;
}

}  // namespace penstock
