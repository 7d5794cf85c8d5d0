// Parses a chat template with jinja2's grammar.
#pragma once

#include <memory>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/limits.h"

namespace penstock {

// `source` is valid UTF-8. Errors are kInvalidData (kUnsupported for what only templates in files
// need: include, import, extends) and name the line; kExhausted when syntax is nested too deeply.
Result<std::unique_ptr<const JinjaTemplate>> parse_template(std::string_view source,
                                                            const TemplateLimits& limits);

}  // namespace penstock
