// Text as Python sees it: indexed by code point, with Unicode's full case mappings. Input is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

// Reads the character at `position` and moves past it. A byte that is not UTF-8 counts as U+FFFD.
char32_t py_next_character(std::string_view text, size_t& position);
void py_append_character(std::string& text, char32_t c);

size_t py_count_characters(std::string_view text);
// The byte at which character `index` begins; text.size() when there are no more than `index`.
size_t py_byte_of_character(std::string_view text, size_t index);

// As Python's str methods of the same names judge one character.
bool py_is_space(char32_t c);
bool py_is_alphabetic(char32_t c);
bool py_is_decimal(char32_t c);
bool py_is_digit(char32_t c);
bool py_is_numeric(char32_t c);
bool py_is_printable(char32_t c);
bool py_is_uppercase(char32_t c);
bool py_is_lowercase(char32_t c);
bool py_is_titlecase(char32_t c);
bool py_is_cased(char32_t c);
inline bool py_is_alphanumeric(char32_t c) {
  return py_is_alphabetic(c) || py_is_decimal(c) || py_is_digit(c) || py_is_numeric(c);
}
// What \w matches.
inline bool py_is_word(char32_t c) { return c == U'_' || py_is_alphanumeric(c); }
bool py_is_identifier(std::string_view text);
// Some cased characters, and `is_this_case` of each of them.
bool py_all_cased(std::string_view text, bool (*is_this_case)(char32_t));

std::string py_upper(std::string_view text);
std::string py_lower(std::string_view text);
std::string py_title(std::string_view text);  // str.title: every run of cased characters
std::string py_capitalize(std::string_view text);
std::string py_swapcase(std::string_view text);
std::string py_casefold(std::string_view text);

std::string_view py_lstrip(std::string_view text);
std::string_view py_rstrip(std::string_view text);
inline std::string_view py_strip(std::string_view text) { return py_lstrip(py_rstrip(text)); }

}  // namespace penstock
