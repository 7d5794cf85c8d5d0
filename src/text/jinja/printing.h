// How values print: Python's str() and repr().
#pragma once

#include "text/jinja/value.h"

namespace penstock {

Result<std::string> jinja_str(JinjaMeter& meter, const JinjaValue& value);
Result<std::string> jinja_repr(JinjaMeter& meter, const JinjaValue& value);

std::string py_integer(JinjaInt value);
// Python's repr of a float: the shortest digits that read back the same, "1.0", "1e+16", "nan".
std::string py_float(double value);
// Python's repr of a str.
std::string py_quoted(std::string_view text);
// Python's ascii(): a repr with everything beyond ASCII escaped too.
std::string py_ascii(std::string_view repr);

}  // namespace penstock
