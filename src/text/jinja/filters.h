// The filters: value|name(arguments).
#pragma once

#include "text/jinja/value.h"

namespace penstock {

using JinjaFilter = Result<JinjaValue> (*)(JinjaRender& render, const JinjaValue& value,
                                           const JinjaArgs& args);

struct JinjaFilterEntry {
  std::string_view name;
  JinjaFilter filter;
};

// Null when there is no such filter.
JinjaFilter find_filter(std::string_view name);
// Why there is none of that name.
std::string unknown_filter(std::string_view name);

// The table's parts, by what they work on.
JinjaFilter find_text_filter(std::string_view name);
JinjaFilter find_value_filter(std::string_view name);  // numbers, defaults, JSON
JinjaFilter find_list_filter(std::string_view name);
JinjaFilter find_selection_filter(std::string_view name);  // map, select and the like: lazy

// str(value) of Python, sharing the text when it already is one.
Result<JinjaValue> as_text_value(JinjaRender& render, const JinjaValue& value);

}  // namespace penstock
