// UTF-8 from outside: whether bytes are text at all.
#pragma once

#include <string_view>

namespace penstock {

// Whether all of `text` is UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing
// above U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace penstock
