#include "engine/answer/json_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"
#include "engine/answer/text_scan.h"

namespace penstock {
namespace {

// What a call may have before its name; other objects are ordinary answers.
constexpr std::array<std::string_view, 5> kKeys = {"name", "arguments", "parameters", "type", "id"};
constexpr size_t kMaxKey = 64;  // bytes that are looked at

bool names_arguments(std::string_view key) { return key == "arguments" || key == "parameters"; }

// An object, or the text of one, or nothing: as an object. Empty for anything else.
std::string as_object(const std::string& arguments) {
  if (arguments.starts_with('{')) return arguments;
  if (arguments == "null") return "{}";
  if (!arguments.starts_with('"')) return {};
  const auto text = parse_json(arguments);
  if (!text) return {};
  const auto& inner = text->get_ref<const std::string&>();
  if (trim(inner).empty()) return "{}";
  JsonMender mender;
  std::string object;
  size_t at = 0;
  auto step = JsonMender::Step::kMore;
  while (at < inner.size() && step == JsonMender::Step::kMore) {
    step = mender.push(inner[at++], object);
  }
  const bool is_whole = step == JsonMender::Step::kDone && trim(inner.substr(at)).empty();
  return is_whole && object.starts_with('{') ? object : std::string();
}

}  // namespace

CallReader::Step JsonCall::push(char byte, DeltaCollector& out) {
  switch (state_) {
    case State::kKey:
      return push_key(byte);
    case State::kName:
      return push_name(byte, out);
    case State::kArguments:
      return push_arguments(byte, out);
    case State::kEarlyArguments:
      return push_early_arguments(byte, out);
    case State::kOtherValue:
      return push_other_value(byte, out);
    default:
      break;
  }
  if (is_space(byte)) return Step::kMore;
  switch (state_) {
    case State::kObject:
      if (byte != '{') return Step::kNoCall;
      state_ = State::kKeyOrEnd;
      return Step::kMore;
    case State::kKeyOrEnd:
      if (byte == '}') return end_object(out);
      if (byte != '"') return unexpected(out);
      key_.clear();
      state_ = State::kKey;
      return Step::kMore;
    case State::kColon:
      if (byte != ':') return unexpected(out);
      state_ = State::kValue;
      return Step::kMore;
    case State::kValue:
      return begin_value(byte, out);
    default:
      return push_after_member(byte, out);
  }
}

CallReader::Step JsonCall::push_key(char byte) {
  if (byte == '"') {
    state_ = State::kColon;
    return Step::kMore;
  }
  if (key_.size() < kMaxKey) key_ += byte;
  const bool known =
      std::ranges::any_of(kKeys, [&](std::string_view key) { return key.starts_with(key_); });
  return known || is_call() ? Step::kMore : Step::kNoCall;
}

CallReader::Step JsonCall::begin_value(char byte, DeltaCollector& out) {
  if (key_ == "name" && !named_) {
    state_ = State::kName;
    return byte == '"' ? Step::kMore : Step::kNoCall;
  }
  mender_ = {};
  if (!names_arguments(key_) || is_call() || !early_arguments_.empty()) {
    state_ = State::kOtherValue;
    return push_other_value(byte, out);
  }
  if (!named_ || byte != '{') {
    state_ = State::kEarlyArguments;
    return push_early_arguments(byte, out);
  }
  begin(name_, out);
  state_ = State::kArguments;
  return push_arguments(byte, out);
}

CallReader::Step JsonCall::push_name(char byte, DeltaCollector& out) {
  if (byte != '"') {
    name_ += byte;
    return tools_.any_begins(name_) ? Step::kMore : Step::kNoCall;
  }
  named_ = tools_.find(name_) != nullptr;
  if (!named_) return Step::kNoCall;
  if (!early_arguments_.empty()) begin_with_early_arguments(out);
  state_ = State::kAfterMember;
  return Step::kMore;
}

CallReader::Step JsonCall::push_arguments(char byte, DeltaCollector& out) {
  switch (arguments_.push(byte, out)) {
    case ArgumentsReader::Step::kMore:
      break;
    case ArgumentsReader::Step::kDone:
      state_ = State::kAfterMember;
      break;
    case ArgumentsReader::Step::kTerminated:
      out.end_call();
      return Step::kDone;
  }
  return Step::kMore;
}

CallReader::Step JsonCall::push_early_arguments(char byte, DeltaCollector& out) {
  const JsonMender::Step step = mender_.push(byte, early_arguments_);
  if (step == JsonMender::Step::kMore) return Step::kMore;
  if (step == JsonMender::Step::kBroken) return Step::kNoCall;
  early_arguments_ = as_object(early_arguments_);
  if (early_arguments_.empty()) return Step::kNoCall;
  if (named_) begin_with_early_arguments(out);
  state_ = State::kAfterMember;
  return step == JsonMender::Step::kDoneBefore ? push(byte, out) : Step::kMore;
}

CallReader::Step JsonCall::push_other_value(char byte, DeltaCollector& out) {
  std::string skipped;
  switch (mender_.push(byte, skipped)) {
    case JsonMender::Step::kMore:
      return Step::kMore;
    case JsonMender::Step::kBroken:
      return unexpected(out);
    case JsonMender::Step::kDone:
      state_ = State::kAfterMember;
      return Step::kMore;
    case JsonMender::Step::kDoneBefore:
      break;
  }
  state_ = State::kAfterMember;
  return push(byte, out);
}

CallReader::Step JsonCall::push_after_member(char byte, DeltaCollector& out) {
  if (byte == '}') return end_object(out);
  if (byte != ',') return unexpected(out);
  state_ = State::kKeyOrEnd;
  return Step::kMore;
}

CallReader::Step JsonCall::end_object(DeltaCollector& out) {
  if (!named_) return Step::kNoCall;
  if (!is_call()) {
    begin(name_, out);
    out.arguments("{}");
  }
  out.end_call();
  return Step::kDone;
}

// A call whose arguments are there needs no more of its object.
CallReader::Step JsonCall::unexpected(DeltaCollector& out) const {
  if (!is_call()) return Step::kNoCall;
  out.end_call();
  return Step::kDoneBefore;
}

void JsonCall::begin_with_early_arguments(DeltaCollector& out) {
  begin(name_, out);
  out.arguments(early_arguments_);
}

void JsonCall::finish(DeltaCollector& out) {
  if (state_ == State::kArguments) {
    arguments_.finish(out);
  } else {
    out.end_call();
  }
}

}  // namespace penstock
