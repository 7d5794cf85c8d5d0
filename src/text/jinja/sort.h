// A stable sort by Python's `<`, which may fail halfway.
#pragma once

#include "text/jinja/value.h"

namespace penstock {

// The order in which `keys` are ascending (or, with `descending`, descending); equal keys keep
// their places.
Result<std::vector<size_t>> sorted_order(JinjaMeter& meter, const JinjaValues& keys,
                                         bool descending = false);

}  // namespace penstock
