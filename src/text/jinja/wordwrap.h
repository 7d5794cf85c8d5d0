// Python's textwrap, as jinja2's filter `wordwrap` uses it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

struct WordWrap {
  size_t width = 79;  // in characters, at least 1
  bool break_long_words = true;
  bool break_on_hyphens = true;
};

// One line of text as lines of at most `width` characters, without the whitespace they are cut at.
std::vector<std::string> wrap_line(std::string_view line, const WordWrap& wrap);

}  // namespace penstock
