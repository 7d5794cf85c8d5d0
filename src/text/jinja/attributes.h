// value.name and value[index] as the sandbox resolves them: methods and attributes, items, or
// undefined.
#pragma once

#include "text/jinja/value.h"

namespace penstock {

Result<JinjaValue> get_attribute(JinjaRender& render, const JinjaValue& value,
                                 std::string_view name);
Result<JinjaValue> get_item(JinjaRender& render, const JinjaValue& value, const JinjaValue& index);

// What Python's getattr finds, without items. Unsafe attributes are undefined values.
Result<std::optional<JinjaValue>> find_attribute(JinjaRender& render, const JinjaValue& value,
                                                 std::string_view name);

// What the `attribute` argument of a filter names in `value`: items one after the other, "a.b.0".
// None is the value itself.
Result<JinjaValue> get_path(JinjaRender& render, JinjaValue value, const JinjaValue& path);
// The same, with `otherwise` (unless that is None) in place of whatever is undefined on the way.
Result<JinjaValue> get_path_or(JinjaRender& render, JinjaValue value, const JinjaValue& path,
                               const JinjaValue& otherwise);

}  // namespace penstock
