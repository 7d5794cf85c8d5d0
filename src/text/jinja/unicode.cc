#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace penstock {
namespace {

// Characters that become several in upper or title case; zeros pad.
struct SpecialCase {
  char32_t character;
  std::array<char32_t, 3> upper;
  std::array<char32_t, 3> title;
};

constexpr SpecialCase kSpecialCases[] = {
#include "text/jinja/special_case.inc"
};

const SpecialCase* find_special_case(char32_t c) {
  const auto* found = std::ranges::lower_bound(kSpecialCases, c, {}, &SpecialCase::character);
  return found != std::end(kSpecialCases) && found->character == c ? found : nullptr;
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

char32_t simple(utf8proc_int32_t (*mapping)(utf8proc_int32_t), char32_t c) {
  return static_cast<char32_t>(mapping(static_cast<utf8proc_int32_t>(c)));
}

void append_mapped(std::string& out, const std::array<char32_t, 3>& characters) {
  for (const char32_t c : characters) {
    if (c != 0) py_append_character(out, c);
  }
}

void append_upper(std::string& out, char32_t c) {
  if (const SpecialCase* special = find_special_case(c)) return append_mapped(out, special->upper);
  py_append_character(out, simple(utf8proc_toupper, c));
}

void append_title(std::string& out, char32_t c) {
  if (const SpecialCase* special = find_special_case(c)) return append_mapped(out, special->title);
  py_append_character(out, simple(utf8proc_totitle, c));
}

// Characters that case rules look through: marks, format characters and a few signs.
bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == U'\'' || c == U'.' || c == U':' || c == 0xb7 || c == 0x2019;
  }
}

size_t start_of_previous(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

// Unicode's Final_Sigma: a cased letter stands before it and none behind it.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  bool cased_before = false;
  while (begin > 0) {
    begin = start_of_previous(text, begin);
    size_t at = begin;
    const char32_t c = py_next_character(text, at);
    if (!is_case_ignorable(c)) {
      cased_before = py_is_cased(c);
      break;
    }
  }
  if (!cased_before) return false;
  while (end < text.size()) {
    const char32_t c = py_next_character(text, end);
    if (!is_case_ignorable(c)) return !py_is_cased(c);
  }
  return true;
}

// Lower case of the character text[begin, end).
void append_lower(std::string& out, std::string_view text, size_t begin, size_t end) {
  size_t at = begin;
  const char32_t c = py_next_character(text, at);
  if (c == 0x130) {  // dotted capital I: the only character whose lower case is two
    out += "i\u0307";
  } else if (c == 0x3a3) {
    py_append_character(out, is_final_sigma(text, begin, end) ? 0x3c2 : 0x3c3);
  } else {
    py_append_character(out, simple(utf8proc_tolower, c));
  }
}

}  // namespace

char32_t py_next_character(std::string_view text, size_t& position) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + position;
  if (*bytes < 0x80) {
    ++position;
    return *bytes;
  }
  utf8proc_int32_t c = 0;
  const auto left = static_cast<utf8proc_ssize_t>(text.size() - position);
  const utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &c);
  if (length <= 0) {
    ++position;
    return 0xfffd;
  }
  position += static_cast<size_t>(length);
  return static_cast<char32_t>(c);
}

void py_append_character(std::string& text, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

size_t py_count_characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

size_t py_byte_of_character(std::string_view text, size_t index) {
  size_t at = 0;
  while (index > 0 && at < text.size()) {
    py_next_character(text, at);
    --index;
  }
  return at;
}

bool py_is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
  return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029;
}

bool py_is_alphabetic(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool py_is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool py_is_digit(char32_t c) {
  // Decimals, and Numeric_Type=Digit where utf8proc has no property: superscripts, subscripts and
  // circled digits.
  return py_is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247c) ||
         (c >= 0x2488 && c <= 0x2490) || c == 0x24ea || (c >= 0x24f5 && c <= 0x24fd) ||
         c == 0x24ff || (c >= 0x2776 && c <= 0x277e) || (c >= 0x2780 && c <= 0x2788) ||
         (c >= 0x278a && c <= 0x2792);
}

bool py_is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool py_is_printable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == U' ';
    default:
      return true;
  }
}

bool py_is_uppercase(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool py_is_lowercase(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }
bool py_is_titlecase(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool py_is_cased(char32_t c) {
  return py_is_uppercase(c) || py_is_lowercase(c) || py_is_titlecase(c);
}

bool py_is_identifier(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const char32_t c = py_next_character(text, at);
    const auto kind = category(c);
    const bool starts = c == U'_' || py_is_alphabetic(c) || kind == UTF8PROC_CATEGORY_NL;
    const bool continues = py_is_decimal(c) || kind == UTF8PROC_CATEGORY_MN ||
                           kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_PC;
    if (!starts && (first || !continues)) return false;
  }
  return !text.empty();
}

bool py_all_cased(std::string_view text, bool (*is_this_case)(char32_t)) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = py_next_character(text, at);
    if (!py_is_cased(c)) continue;
    if (!is_this_case(c)) return false;
    found = true;
  }
  return found;
}

std::string py_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_upper(out, py_next_character(text, at));
  return out;
}

std::string py_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    py_next_character(text, at);
    append_lower(out, text, begin, at);
  }
  return out;
}

std::string py_title(std::string_view text) {
  std::string out;
  bool after_cased = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = py_next_character(text, at);
    if (after_cased) {
      append_lower(out, text, begin, at);
    } else {
      append_title(out, c);
    }
    after_cased = py_is_cased(c);
  }
  return out;
}

std::string py_capitalize(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = py_next_character(text, at);
    if (begin == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text, begin, at);
    }
  }
  return out;
}

std::string py_swapcase(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = py_next_character(text, at);
    if (py_is_uppercase(c)) {
      append_lower(out, text, begin, at);
    } else if (py_is_lowercase(c)) {
      append_upper(out, c);
    } else {
      py_append_character(out, c);
    }
  }
  return out;
}

std::string py_casefold(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const auto c = static_cast<utf8proc_int32_t>(py_next_character(text, at));
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(c, folded, std::ssize(folded), UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < n; ++i)
      py_append_character(out, static_cast<char32_t>(folded[i]));
  }
  return out;
}

std::string_view py_lstrip(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!py_is_space(py_next_character(text, at))) return text.substr(begin);
  }
  return {};
}

std::string_view py_rstrip(std::string_view text) {
  while (!text.empty()) {
    const size_t begin = start_of_previous(text, text.size());
    size_t at = begin;
    if (!py_is_space(py_next_character(text, at))) return text;
    text = text.substr(0, begin);
  }
  return text;
}

}  // namespace penstock
