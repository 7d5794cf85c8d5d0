// The methods of str, list, dict and numbers that the sandbox lets templates call.
#pragma once

#include "text/jinja/value.h"

namespace penstock {

// The bound method or plain attribute `name`; nothing when the type has none.
Result<std::optional<JinjaValue>> find_method(JinjaRender& render, const JinjaValue& value,
                                              std::string_view name);
// A method that would change a list or dict: the sandbox refuses it.
bool is_mutating_method(const JinjaValue& value, std::string_view name);

using JinjaMethod = Result<JinjaValue> (*)(JinjaRender& render, const JinjaValue& self,
                                           const JinjaArgs& args);
// Null when str has no such method.
JinjaMethod find_text_method(std::string_view name);

}  // namespace penstock
