// Text as HTML shows it.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

// With &, <, >, " and ' as entities: safe between tags and inside quoted attributes. Quotes are
// numbered entities, as Python's markupsafe writes them, for chat templates compare bytes.
std::string html_escaped(std::string_view text);

}  // namespace penstock
