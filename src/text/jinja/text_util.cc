#include "text/jinja/text_util.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace penstock {
namespace {

bool contains(std::string_view set, std::string_view character) {
  return set.find(character) != std::string_view::npos;
}

// The first character's bytes, and the last's.
std::string_view front_of(std::string_view text) {
  return text.substr(0, py_byte_of_character(text, 1));
}
std::string_view back_of(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return text.substr(begin);
}

bool is_space_at(std::string_view character) {
  size_t at = 0;
  return py_is_space(py_next_character(character, at));
}

bool ends_line(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       size_t most) {
  std::vector<std::string_view> parts;
  while (parts.size() < most) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> rsplit_at(std::string_view text, std::string_view separator,
                                        size_t most) {
  std::vector<std::string_view> parts;
  while (parts.size() < most) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_at_space(std::string_view text, size_t most) {
  std::vector<std::string_view> parts;
  text = py_lstrip(text);
  while (!text.empty()) {
    if (parts.size() == most) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    for (size_t at = 0; at < text.size(); end = at) {
      if (py_is_space(py_next_character(text, at))) break;
    }
    parts.push_back(text.substr(0, end));
    text = py_lstrip(text.substr(end));
  }
  return parts;
}

std::vector<std::string_view> rsplit_at_space(std::string_view text, size_t most) {
  std::vector<std::string_view> parts;
  text = py_rstrip(text);
  while (!text.empty()) {
    if (parts.size() == most) {
      parts.push_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const std::string_view last = back_of(text.substr(0, begin));
      if (is_space_at(last)) break;
      begin -= last.size();
    }
    parts.push_back(text.substr(begin));
    text = py_rstrip(text.substr(0, begin));
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = py_next_character(text, at);
    if (!ends_line(c)) continue;
    if (c == U'\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

size_t count_occurrences(std::string_view text, std::string_view part, size_t most) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos && count < most;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

Result<std::string> replaced(JinjaMeter& meter, std::string_view text, std::string_view from,
                             std::string_view to, JinjaInt count) {
  const size_t most =
      count < 0 ? SIZE_MAX : static_cast<size_t>(std::min(count, JinjaInt{SIZE_MAX}));
  PENSTOCK_TRY(meter.step_characters(text.size()));
  const size_t n = from.empty() ? std::min(py_count_characters(text) + 1, most)
                                : count_occurrences(text, from, most);
  PENSTOCK_TRY(meter.has_room(n, to.size()));
  std::string out;
  out.reserve(text.size() + n * to.size());
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    if (from.empty()) {  // before every character, and at the end
      out += to;
      const size_t begin = at;
      if (at < text.size()) py_next_character(text, at);
      out += text.substr(begin, at - begin);
    } else {
      const size_t found = text.find(from, at);
      out += text.substr(at, found - at);
      out += to;
      at = found + from.size();
    }
  }
  out += text.substr(at);
  return out;
}

Result<std::string_view> stripped_of(JinjaMeter& meter, std::string_view text,
                                     const JinjaValue* chars, Sides sides) {
  std::optional<std::string_view> set;
  if (chars != nullptr && !chars->is_none()) {
    set = text_of(*chars);
    if (!set) return jinja_error("strip arg must be None or str, not {}", chars->type_name());
  }
  const auto goes = [&](std::string_view character) {
    return set ? contains(*set, character) : is_space_at(character);
  };
  while (sides != Sides::kRight && !text.empty() && goes(front_of(text))) {
    if (set) PENSTOCK_TRY(meter.step_bytes(set->size()));
    text.remove_prefix(front_of(text).size());
  }
  while (sides != Sides::kLeft && !text.empty() && goes(back_of(text))) {
    if (set) PENSTOCK_TRY(meter.step_bytes(set->size()));
    text.remove_suffix(back_of(text).size());
  }
  return text;
}

Result<std::string> justified(JinjaMeter& meter, const JinjaText& text, JinjaInt width, char align,
                              std::string_view fill) {
  const auto length = static_cast<JinjaInt>(text.length);
  if (width <= length) return text.bytes;
  if (width - length > JinjaInt{SIZE_MAX}) width = length + JinjaInt{SIZE_MAX};
  const auto missing = static_cast<size_t>(width - length);
  PENSTOCK_TRY(meter.has_room(missing, fill.size()));
  // Python's center puts the odd one to the left where the width is odd.
  const size_t centered = missing / 2 + (missing & static_cast<size_t>(width) & 1);
  const size_t before = align == '<' ? 0 : align == '>' ? missing : centered;
  std::string out;
  for (size_t i = 0; i < before; ++i) out += fill;
  out += text.bytes;
  for (size_t i = before; i < missing; ++i) out += fill;
  return out;
}

}  // namespace penstock
