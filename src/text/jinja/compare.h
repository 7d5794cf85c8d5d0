// Equality, order and membership of template values, as Python defines them.
#pragma once

#include "text/jinja/value.h"

namespace penstock {

enum class JinjaOrder { kLess, kLessEqual, kGreater, kGreaterEqual };

// Work is metered: values may share their parts, so that comparing two small ones can take for
// ever.
Result<bool> jinja_equal(JinjaMeter& meter, const JinjaValue& a, const JinjaValue& b);
// An error when Python has no order between the two types.
Result<bool> jinja_ordered(JinjaMeter& meter, JinjaOrder order, const JinjaValue& a,
                           const JinjaValue& b);
// `item in container`.
Result<bool> jinja_contains(JinjaMeter& meter, const JinjaValue& container, const JinjaValue& item);

// Equality of two hashable keys, whose size is bounded.
bool equal_keys(const JinjaValue& a, const JinjaValue& b);

}  // namespace penstock
