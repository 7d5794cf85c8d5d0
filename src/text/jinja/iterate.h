// Walking over whatever Python would iterate: text by character, dicts by key, and so on.
#pragma once

#include "text/jinja/value.h"

namespace penstock {

bool is_iterable(const JinjaValue& value);
// Python's len(), where there is one.
std::optional<size_t> length_of(const JinjaValue& value);

// Visits the items of a value, holding on to it. Each item is a step.
class JinjaCursor {
 public:
  // Of an iterable value; anything else has no items.
  JinjaCursor(JinjaMeter& meter, JinjaValue source) : meter_(&meter), source_(std::move(source)) {}

  // Nothing at the end.
  Result<std::optional<JinjaValue>> next();
  size_t depth() const { return source_.depth(); }

 private:
  JinjaMeter* meter_;
  JinjaValue source_;
  size_t at_ = 0;  // index of the next item; in text its byte
};

// A cursor over `value`, or the error that it is not iterable.
Result<JinjaCursor> iterate(JinjaMeter& meter, const JinjaValue& value);
// All items at once.
Result<JinjaValues> items_of(JinjaMeter& meter, const JinjaValue& value);

}  // namespace penstock
