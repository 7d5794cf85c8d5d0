// What the sorting and grouping filters compare.
#pragma once

#include "text/jinja/value.h"

namespace penstock {

// Text in lower case; other values as they are.
Result<JinjaValue> without_case(JinjaMeter& meter, const JinjaValue& value);

// What `path` (None: the item itself) names in `item`, without case unless that matters.
Result<JinjaValue> sort_key(JinjaRender& render, const JinjaValue& item, const JinjaValue& path,
                            bool case_sensitive);

}  // namespace penstock
