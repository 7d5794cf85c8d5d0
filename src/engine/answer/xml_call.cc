#include "engine/answer/xml_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/answer/text_scan.h"

namespace penstock {
namespace {

constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kCallEnd = "</tool_call>";
// What may stand where a parameter can.
constexpr std::array<std::string_view, 3> kTags = {kParameter, kFunctionEnd, kCallEnd};
constexpr size_t kMaxSpace = 256;  // bytes between two closing tags

// `tail` as the end of a value and the tags behind it.
struct ValueEnd {
  Match match = Match::kNone;
  bool closed = false;   // the tag that closes the value is whole
  bool goes_on = false;  // whole: another parameter follows
};

template <size_t n>
ValueEnd match_tags(std::string_view tail, std::string_view closer,
                    const std::array<std::string_view, n>& followers) {
  if (!tail.starts_with(closer)) return {.match = match(tail, closer)};
  const std::string_view behind = tail.substr(closer.size());
  const std::string_view tag = trim_front(behind);
  if (behind.size() - tag.size() > kMaxSpace) return {};
  if (tag.empty()) return {.match = Match::kBegun, .closed = true};
  return {.match = match_any(tag, followers), .closed = true, .goes_on = tag == kParameter};
}

// Some models forget to close a parameter, but then close the rest.
ValueEnd match_value_end(std::string_view tail) {
  if (tail.starts_with('\n')) tail.remove_prefix(1);
  if (tail.empty()) return {.match = Match::kBegun};
  const ValueEnd usual = match_tags(tail, kParameterEnd, kTags);
  if (usual.match != Match::kNone) return usual;
  return match_tags(tail, kFunctionEnd, std::array{kCallEnd});
}

}  // namespace

CallReader::Step XmlCall::push(char byte, DeltaCollector& out) {
  switch (state_) {
    case State::kLead:
      return push_lead(byte);
    case State::kName:
      return push_name(byte);
    case State::kFirstTag:
      return push_first_tag(byte, out);
    case State::kParameterName:
      return push_parameter_name(byte, out);
    case State::kValueBegin:
      state_ = State::kValue;
      if (byte == '\n') return Step::kMore;
      break;
    case State::kValue:
      break;
  }
  return push_value(byte, out);
}

CallReader::Step XmlCall::push_lead(char byte) {
  if (token_.empty() && is_space(byte)) return Step::kMore;
  token_ += byte;
  const Match found = match(token_, kFunction);
  if (found == Match::kNone) return Step::kNoCall;
  if (found == Match::kWhole) {
    token_.clear();
    state_ = State::kName;
  }
  return Step::kMore;
}

CallReader::Step XmlCall::push_name(char byte) {
  if (byte != '>') {
    name_ += byte;
    return tools_.any_begins(name_) ? Step::kMore : Step::kNoCall;
  }
  tool_ = tools_.find(name_);
  if (tool_ == nullptr) return Step::kNoCall;
  state_ = State::kFirstTag;
  return Step::kMore;
}

CallReader::Step XmlCall::push_first_tag(char byte, DeltaCollector& out) {
  if (token_.empty() && is_space(byte)) return Step::kMore;
  token_ += byte;
  const Match found = match_any(token_, kTags);
  if (found != Match::kWhole) return found == Match::kNone ? Step::kNoCall : Step::kMore;
  if (token_ != kParameter) {
    begin(name_, out);
    return end_call(out);
  }
  state_ = State::kParameterName;
  return Step::kMore;
}

CallReader::Step XmlCall::push_parameter_name(char byte, DeltaCollector& out) {
  if (byte != '>') {
    parameter_ += byte;
    return Step::kMore;
  }
  if (!is_call()) begin(name_, out);
  types_ = tool_->types_of(parameter_);
  out.arguments((n_parameters_++ == 0 ? "{" : ",") + json_quoted(parameter_) + ":");
  if (types_.only_string()) out.arguments("\"");
  parameter_.clear();
  state_ = State::kValueBegin;
  return Step::kMore;
}

CallReader::Step XmlCall::push_value(char byte, DeltaCollector& out) {
  tail_ += byte;
  ValueEnd end = match_value_end(tail_);
  while (end.match == Match::kNone) {
    write_value(tail_.front(), out);
    tail_.erase(0, 1);
    if (tail_.empty()) return Step::kMore;
    end = match_value_end(tail_);
  }
  if (end.match == Match::kBegun) return Step::kMore;
  end_value(out);
  if (!end.goes_on) return end_call(out);
  state_ = State::kParameterName;
  return Step::kMore;
}

void XmlCall::write_value(char byte, DeltaCollector& out) {
  if (!types_.only_string()) {
    value_ += byte;
    return;
  }
  std::string escaped;
  append_escaped(escaped, byte);
  out.arguments(escaped);
}

void XmlCall::end_value(DeltaCollector& out) {
  out.arguments(types_.only_string() ? "\"" : typed_json(value_, types_));
  value_.clear();
  tail_.clear();
}

CallReader::Step XmlCall::end_call(DeltaCollector& out) {
  out.arguments(n_parameters_ == 0 ? "{}" : "}");
  out.end_call();
  return Step::kDone;
}

void XmlCall::finish(DeltaCollector& out) {
  if (state_ == State::kParameterName) {
    const std::string name = json_quoted(parameter_);
    out.arguments("," + name.substr(0, name.size() - 1));
    return;
  }
  if (match_value_end(tail_).closed) {
    end_value(out);
    end_call(out);
    return;
  }
  for (const char byte : tail_) write_value(byte, out);
  out.arguments(value_);
}

}  // namespace penstock
