// Text on lines of a terminal's width.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

// Words on lines of at most `columns`, from the second on behind `indent` spaces; the last line
// ends too. A word that is longer has a line of its own.
std::string wrapped(std::string_view text, int columns, int indent);

}  // namespace penstock
