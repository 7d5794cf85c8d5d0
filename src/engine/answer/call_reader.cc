#include "engine/answer/call_reader.h"

#include <utility>

#include "engine/answer/text_scan.h"

namespace penstock {

ArgumentsReader::Step ArgumentsReader::push(char byte, DeltaCollector& out) {
  if (is_raw_) return push_raw(byte, out);
  std::string fragment;
  const JsonMender::Step step = mender_.push(byte, fragment);
  is_raw_ = step == JsonMender::Step::kBroken;
  if (is_raw_ && terminator_.starts_with(byte)) {
    fragment.pop_back();
    held_ = byte;
  }
  out.arguments(fragment);
  return step == JsonMender::Step::kDone ? Step::kDone : Step::kMore;
}

ArgumentsReader::Step ArgumentsReader::push_raw(char byte, DeltaCollector& out) {
  held_ += byte;
  switch (match(held_, terminator_)) {
    case Match::kWhole:
      return Step::kTerminated;
    case Match::kBegun:
      return Step::kMore;
    case Match::kNone:
      break;
  }
  // A terminator's first byte occurs in it only once: what is left may begin another.
  held_.pop_back();
  out.arguments(std::exchange(held_, {}));
  if (terminator_.starts_with(byte)) {
    held_ = byte;
  } else {
    out.arguments(std::string_view(&byte, 1));
  }
  return Step::kMore;
}

void ArgumentsReader::finish(DeltaCollector& out) {
  mender_.flush(held_);
  out.arguments(std::exchange(held_, {}));
}

}  // namespace penstock
