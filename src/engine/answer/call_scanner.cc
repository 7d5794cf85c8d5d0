#include "engine/answer/call_scanner.h"

#include <utility>

#include "engine/answer/json_call.h"
#include "engine/answer/named_call.h"
#include "engine/answer/text_scan.h"
#include "engine/answer/xml_call.h"

namespace penstock {

void CallScanner::push(char byte, DeltaCollector& out) {
  if (state_ != State::kCall || !call_->is_call()) fence_.push(byte);
  switch (state_) {
    case State::kStart:
    case State::kText:
      return push_text(byte, out);
    case State::kOpened:
      return push_opened(byte, out);
    case State::kCall:
      return push_call(byte, out);
    case State::kAfter:
      return push_after(byte, out);
  }
}

void CallScanner::push_text(char byte, DeltaCollector& out) {
  if (token_.empty() && is_space(byte)) {
    held_ += byte;
    return;
  }
  if (state_ == State::kStart && token_.empty() && grammar_.bare_first && byte == '{') {
    begin_call(std::make_unique<JsonCall>(tools_, grammar_.terminator));
    return push_call(byte, out);
  }
  token_ += byte;
  const Match found = fence_.is_open() ? Match::kNone : match_any(token_, grammar_.openers);
  token_.pop_back();
  if (found != Match::kNone) {
    hold(byte);
    if (found == Match::kWhole) open();
    return;
  }
  if (!token_.empty()) {
    give_up(out);
    return push_text(byte, out);  // it may begin an opener itself
  }
  state_ = State::kText;
  out.content(std::exchange(held_, {}));
  out.content(std::string_view(&byte, 1));
}

void CallScanner::hold(char byte) {
  held_ += byte;
  token_ += byte;
}

void CallScanner::open() {
  if (std::exchange(token_, {}) == "<function=") {
    begin_call(std::make_unique<XmlCall>(tools_, /*opened=*/true));
  } else {
    state_ = State::kOpened;
  }
}

void CallScanner::begin_call(std::unique_ptr<CallReader> call) {
  call_ = std::move(call);
  state_ = State::kCall;
}

void CallScanner::push_opened(char byte, DeltaCollector& out) {
  if (is_space(byte) || grammar_.lead.find(byte) != std::string_view::npos) {
    held_ += byte;
    if (held_.size() > kMaxHeld) give_up(out);
    return;
  }
  if (byte == '{') {
    begin_call(std::make_unique<JsonCall>(tools_, grammar_.terminator));
  } else if (grammar_.tags && byte == '<') {
    begin_call(std::make_unique<XmlCall>(tools_, /*opened=*/false));
  } else if (grammar_.names) {
    begin_call(std::make_unique<NamedCall>(tools_));
  } else {
    give_up(out);
    return push_text(byte, out);
  }
  push_call(byte, out);
}

void CallScanner::push_call(char byte, DeltaCollector& out) {
  const CallReader::Step step = call_->push(byte, out);
  if (call_->is_call()) held_.clear();
  switch (step) {
    case CallReader::Step::kMore:
      if (call_->is_call()) return;
      held_ += byte;
      if (held_.size() > kMaxHeld) give_up(out);
      return;
    case CallReader::Step::kDone:
      state_ = State::kAfter;
      return;
    case CallReader::Step::kDoneBefore:
      state_ = State::kAfter;
      return push_after(byte, out);
    case CallReader::Step::kNoCall:
      give_up(out);
      return push_text(byte, out);
  }
}

void CallScanner::push_after(char byte, DeltaCollector& out) {
  const bool separates = is_space(byte) || grammar_.separators.find(byte) != std::string_view::npos;
  if (token_.empty() && separates) {
    held_ += byte;
    return;
  }
  if (token_.empty() && grammar_.bare_next && byte == '{') {
    begin_call(std::make_unique<JsonCall>(tools_, grammar_.terminator));
    return push_call(byte, out);
  }
  hold(byte);
  const Match closer = match_any(token_, grammar_.closers);
  const Match opener = match_any(token_, grammar_.openers);
  if (closer == Match::kWhole) {
    held_.clear();
    token_.clear();
  } else if (opener == Match::kWhole) {
    open();
  } else if (closer == Match::kNone && opener == Match::kNone) {
    held_.pop_back();
    give_up(out);
    push_text(byte, out);
  }
}

// What is held is content, and nothing in it is looked at again: so the work stays proportional to
// the text. Only in a call's strings could another call have begun.
void CallScanner::give_up(DeltaCollector& out) {
  out.content(std::exchange(held_, {}));
  token_.clear();
  state_ = State::kText;
}

void CallScanner::finish(DeltaCollector& out) {
  if (state_ == State::kCall && call_->is_call()) return call_->finish(out);
  if (state_ == State::kAfter) {
    const bool may_close = match_any(token_, grammar_.closers) == Match::kBegun;
    const bool may_open = match_any(token_, grammar_.openers) == Match::kBegun;
    if (token_.empty() || (may_close && !may_open)) return;
  }
  give_up(out);
}

}  // namespace penstock
