// The tests: `value is name(arguments)`.
#pragma once

#include "text/jinja/value.h"

namespace penstock {

using JinjaPredicate = Result<bool> (*)(JinjaRender& render, const JinjaValue& value,
                                        const JinjaArgs& args);

// Null when there is no such test.
JinjaPredicate find_test(std::string_view name);
std::string unknown_test(std::string_view name);

}  // namespace penstock
