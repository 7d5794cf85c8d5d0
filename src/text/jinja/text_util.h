// Cutting, padding and replacing text as Python's str does: shared by its methods and by filters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace penstock {

// At most `most` cuts. The parts are views into `text`.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       size_t most);
std::vector<std::string_view> rsplit_at(std::string_view text, std::string_view separator,
                                        size_t most);
// At runs of whitespace, without empty parts.
std::vector<std::string_view> split_at_space(std::string_view text, size_t most);
std::vector<std::string_view> rsplit_at_space(std::string_view text, size_t most);
// At every end of line that str.splitlines knows.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// How often `part`, which is not empty, occurs without overlap; counting stops at `most`.
size_t count_occurrences(std::string_view text, std::string_view part, size_t most);
// The first `count` occurrences replaced, all of them where it is negative.
Result<std::string> replaced(JinjaMeter& meter, std::string_view text, std::string_view from,
                             std::string_view to, JinjaInt count);

enum class Sides { kLeft, kRight, kBoth };
// Without the characters in `chars` (whitespace where it is null or None) at its sides.
Result<std::string_view> stripped_of(JinjaMeter& meter, std::string_view text,
                                     const JinjaValue* chars, Sides sides);

// Padded with `fill`, one character, to `width` characters: align is one of < > ^.
Result<std::string> justified(JinjaMeter& meter, const JinjaText& text, JinjaInt width, char align,
                              std::string_view fill);

}  // namespace penstock
