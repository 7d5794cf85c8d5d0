#include "text/jinja/filters.h"

#include <algorithm>

#include "text/jinja/evaluator.h"
#include "text/jinja/printing.h"

namespace penstock {

JinjaFilter find_filter(std::string_view name) {
  for (const auto find :
       {find_value_filter, find_text_filter, find_list_filter, find_selection_filter}) {
    if (const JinjaFilter filter = find(name)) return filter;
  }
  return nullptr;
}

std::string unknown_filter(std::string_view name) {
  constexpr std::string_view kLeftOut[] = {"pprint", "random", "striptags", "urlize"};
  if (std::ranges::find(kLeftOut, name) != std::end(kLeftOut)) {
    return fmt::format("jinja2's filter '{}' is not supported in chat templates", name);
  }
  return fmt::format("No filter named {}.", py_quoted(name));
}

Result<JinjaValue> as_text_value(JinjaRender& render, const JinjaValue& value) {
  if (value.is_text()) return value;
  PENSTOCK_ASSIGN(std::string text, jinja_str(render.meter(), value));
  return jinja_text(render.meter(), std::move(text));
}

}  // namespace penstock
