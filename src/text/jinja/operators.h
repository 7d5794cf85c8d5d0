// The arithmetic operators, subscripts and slices of templates, as Python defines them.
#pragma once

#include "text/jinja/value.h"

namespace penstock {

enum class JinjaOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

Result<JinjaValue> jinja_binary(JinjaMeter& meter, JinjaOperator op, const JinjaValue& a,
                                const JinjaValue& b);
Result<JinjaValue> jinja_negative(const JinjaValue& value);
Result<JinjaValue> jinja_positive(const JinjaValue& value);

// value[index] for text, sequences, ranges and dicts; nothing where Python raises a LookupError or
// TypeError.
Result<std::optional<JinjaValue>> jinja_item(JinjaMeter& meter, const JinjaValue& value,
                                             const JinjaValue& index);
// value[start:stop:step]; each bound None or an integer.
Result<JinjaValue> jinja_slice(JinjaMeter& meter, const JinjaValue& value, const JinjaValue& start,
                               const JinjaValue& stop, const JinjaValue& step);

// HTML-escaped text, marked safe; text already marked safe stays as it is.
Result<JinjaValue> jinja_escaped(JinjaMeter& meter, const JinjaValue& value);

}  // namespace penstock
