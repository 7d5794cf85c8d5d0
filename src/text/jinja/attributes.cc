#include "text/jinja/attributes.h"

#include <algorithm>

#include "text/jinja/evaluator.h"
#include "text/jinja/lexer.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace penstock {
namespace {

std::string described(const JinjaValue& value) {
  if (value.is_none()) return "None";
  return fmt::format("{} object", value.type_name());
}

JinjaValue missing_attribute(const JinjaValue& value, std::string_view name) {
  return JinjaValue::undefined(
      fmt::format("'{}' has no attribute {}", described(value), py_quoted(name)));
}

JinjaValue unsafe_attribute(const JinjaValue& value, std::string_view name) {
  return JinjaValue::undefined(fmt::format("access to attribute {} of '{}' object is unsafe.",
                                           py_quoted(name), value.type_name()));
}

JinjaValue undefined_attribute(const JinjaValue& value, std::string_view name) {
  const bool is_internal = name.starts_with("__") && name.ends_with("__");
  return is_internal ? unsafe_attribute(value, name) : missing_attribute(value, name);
}

}  // namespace

// Names with two underscores lead into Python's insides: whatever they would
// give is unsafe.
Result<std::optional<JinjaValue>> find_attribute(JinjaRender& render, const JinjaValue& value,
                                                 std::string_view name) {
  if (name.starts_with("__") && name.ends_with("__")) return std::nullopt;
  if (JinjaObject* object = value.as_object()) return object->attribute(render, name);
  if (is_mutating_method(value, name)) return unsafe_attribute(value, name);
  return find_method(render, value, name);
}

Result<JinjaValue> get_attribute(JinjaRender& render, const JinjaValue& value,
                                 std::string_view name) {
  if (value.is_undefined()) return jinja_error("{}", value.why());
  PENSTOCK_ASSIGN(auto found, find_attribute(render, value, name));
  if (found) return *std::move(found);
  if (const JinjaDict* dict = value.as_dict()) {
    if (const JinjaValue* item = dict->find(name)) return *item;
  }
  return undefined_attribute(value, name);
}

Result<JinjaValue> get_item(JinjaRender& render, const JinjaValue& value, const JinjaValue& index) {
  if (value.is_undefined()) return jinja_error("{}", value.why());
  PENSTOCK_ASSIGN(auto item, jinja_item(render.meter(), value, index));
  if (item) return *std::move(item);
  if (const auto name = text_of(index)) {
    PENSTOCK_ASSIGN(auto found, find_attribute(render, value, *name));
    if (found) return *std::move(found);
    return undefined_attribute(value, *name);
  }
  PENSTOCK_ASSIGN(const std::string printed, jinja_repr(render.meter(), index));
  return JinjaValue::undefined(fmt::format("{} has no element {}", described(value), printed));
}

Result<JinjaValue> get_path(JinjaRender& render, JinjaValue value, const JinjaValue& path) {
  return get_path_or(render, std::move(value), path, JinjaValue());
}

Result<JinjaValue> get_path_or(JinjaRender& render, JinjaValue value, const JinjaValue& path,
                               const JinjaValue& otherwise) {
  if (path.is_none()) return value;
  const auto step_into = [&](const JinjaValue& index) -> Result<void> {
    PENSTOCK_ASSIGN(value, get_item(render, value, index));
    if (value.is_undefined() && !otherwise.is_none()) value = otherwise;
    return {};
  };
  const auto text = text_of(path);
  if (!text) {
    PENSTOCK_TRY(step_into(path));
    return value;
  }
  std::string_view rest = *text;
  while (true) {
    const size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, end);
    const bool is_number =
        !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    bool overflow = false;
    const auto number = is_number ? py_parse_integer(part, 10, overflow) : std::nullopt;
    PENSTOCK_TRY(
        step_into(number ? JinjaValue(*number) : jinja_text(render.meter(), std::string(part))));
    if (end == rest.size()) return value;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace penstock
