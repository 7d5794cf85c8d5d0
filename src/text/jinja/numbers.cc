// Reading numbers as Python's int() and float() do.
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/jinja/lexer.h"
#include "text/jinja/unicode.h"

namespace penstock {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

// Drops underscores, each of which must stand between two digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_ascii_digit(text[i - 1]) ||
               !is_ascii_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Takes "0x" and the like when they fit the base; base 0 becomes the base they name.
void take_prefix(std::string_view& text, int& base) {
  const char mark = text.size() > 1 && text[0] == '0'
                        ? static_cast<char>(std::tolower(static_cast<unsigned char>(text[1])))
                        : '\0';
  const int named = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (named != 0 && (base == 0 || base == named)) {
    text.remove_prefix(2);
    if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    base = named;
  }
  if (base == 0) base = 10;
}

}  // namespace

std::optional<double> py_parse_float(std::string_view text) {
  const auto digits = without_underscores(py_strip(text));
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  const bool negative = rest[0] == '-';
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
  const std::string lower = ascii_lower(rest);
  double value = 0;
  if (lower == "inf" || lower == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (lower == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (lower.empty() || !(is_ascii_digit(lower[0]) || lower[0] == '.')) return std::nullopt;
    const auto [end, error] = std::from_chars(lower.data(), lower.data() + lower.size(), value);
    if (end != lower.data() + lower.size() || error == std::errc::invalid_argument) {
      return std::nullopt;
    }
    // Too large or too small: strtod tells which.
    if (error == std::errc::result_out_of_range) value = std::strtod(lower.c_str(), nullptr);
  }
  return negative ? -value : value;
}

std::optional<JinjaInt> py_parse_integer(std::string_view text, int base, bool& overflow) {
  overflow = false;
  text = py_strip(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  take_prefix(text, base);
  if (text.empty() || text.back() == '_') return std::nullopt;
  JinjaInt value = 0;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_') {
      if (!after_digit) return std::nullopt;
      after_digit = false;
      continue;
    }
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    after_digit = true;
    overflow = overflow || __builtin_mul_overflow(value, JinjaInt{base}, &value) ||
               __builtin_add_overflow(value, JinjaInt{digit}, &value);
  }
  if (overflow) return std::nullopt;
  return negative ? -value : value;
}

}  // namespace penstock
