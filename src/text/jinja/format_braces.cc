// "{}".format(...): Python's replacement fields and format specifications.
#include <cctype>
#include <cmath>

#include "base/html.h"
#include "text/jinja/attributes.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace penstock {
namespace {

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }
bool is_ascii_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

size_t take_number(std::string_view text, size_t& at) {
  size_t number = 0;
  for (; at < text.size() && is_ascii_digit(text[at]); ++at) {
    number = std::min<size_t>(number * 10 + static_cast<size_t>(text[at] - '0'), SIZE_MAX / 16);
  }
  return number;
}

// [[fill]align][sign][#][0][width][grouping][.precision][type]
Result<FormatSpec> parse_spec(std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  const size_t fill_size = text.empty() ? 0 : py_byte_of_character(text, 1);
  if (fill_size < text.size() && fill_size > 0 && is_align(text[fill_size])) {
    spec.fill = text.substr(0, fill_size);
    spec.align = text[fill_size];
    at = fill_size + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    if (spec.align == '\0') spec.fill = "0";
    ++at;
  }
  spec.width = take_number(text, at);
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    ++at;
    if (!is_ascii_digit(peek())) return jinja_error("Format specifier missing precision");
    spec.precision = take_number(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) return jinja_error("Invalid format specifier {}", py_quoted(text));
  return spec;
}

// "1234567.89" with `separator` between groups of `size` digits of the whole part.
std::string grouped(const std::string& digits, char separator, size_t size) {
  size_t whole = 0;
  while (whole < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[whole])) != 0 &&
         digits[whole] != 'e') {
    ++whole;
  }
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::unexpected<Error> unknown_type(char type, const JinjaValue& value) {
  return jinja_error("Unknown format code '{}' for object of type '{}'", type, value.type_name());
}

// A float with no type: its repr, or with a precision like 'g' with one digit after the point.
std::string general_real(double magnitude, const std::optional<size_t>& precision) {
  if (!precision) return py_float(magnitude);
  std::string digits = format_real(magnitude, 'g', std::max<size_t>(*precision, 1), false);
  const bool bare = digits.find_first_of(".en") == std::string::npos;
  return bare ? digits + ".0" : digits;
}

Result<std::string> formatted_real(JinjaMeter& meter, const FormatSpec& spec,
                                   const JinjaValue& value) {
  const double real = value.number().value_or(0);
  const double magnitude = std::fabs(real);
  std::string digits;
  if (spec.type == '\0') {
    digits = general_real(magnitude, spec.precision);
  } else {
    const char type = spec.type == 'n' ? 'g' : spec.type;
    digits = format_real(magnitude, type, spec.precision.value_or(6), spec.alternate);
  }
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping, 3);
  return padded(meter, spec, sign_of(std::signbit(real), spec.sign), digits, '>');
}

Result<std::string> formatted_integer(JinjaMeter& meter, const FormatSpec& spec,
                                      const JinjaValue& value) {
  const JinjaInt integer = value.integral().value_or(0);
  if (spec.precision) return jinja_error("Precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    if (integer < 0 || integer > 0x10ffff || (integer >= 0xd800 && integer < 0xe000)) {
      return jinja_error("%c arg not in range(0x110000)");
    }
    std::string character;
    py_append_character(character, static_cast<char32_t>(integer));
    return padded(meter, spec, "", character, '>');
  }
  const bool decimal = spec.type == '\0' || spec.type == 'd' || spec.type == 'n';
  std::string digits = integer_digits(integer, decimal ? 'd' : spec.type);
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping, decimal ? 3 : 4);
  std::string sign = sign_of(integer < 0, spec.sign);
  if (spec.alternate && !decimal) sign += std::string("0") + spec.type;
  return padded(meter, spec, sign, digits, '>');
}

Result<std::string> formatted_text(JinjaMeter& meter, const FormatSpec& spec,
                                   const JinjaValue& value) {
  if (spec.type != '\0' && spec.type != 's') return unknown_type(spec.type, value);
  if (spec.align == '=') return jinja_error("'=' alignment not allowed in string format specifier");
  std::string body = value.as_text()->bytes;
  if (spec.precision) body.resize(py_byte_of_character(body, *spec.precision));
  FormatSpec layout = spec;
  if (layout.align == '\0') layout.align = '<';
  return padded(meter, layout, "", body, '<');
}

// Python's format(value, spec).
Result<std::string> formatted(JinjaMeter& meter, const JinjaValue& value, std::string_view text) {
  if (text.empty()) return jinja_str(meter, value);
  PENSTOCK_ASSIGN(const FormatSpec spec, parse_spec(text));
  if (value.is_text()) return formatted_text(meter, spec, value);
  constexpr std::string_view kRealTypes = "eEfFgG%";
  const bool real_type = spec.type != '\0' && kRealTypes.find(spec.type) != std::string_view::npos;
  if (value.is_float()) {
    if (!real_type && spec.type != '\0' && spec.type != 'n') return unknown_type(spec.type, value);
    return formatted_real(meter, spec, value);
  }
  if (value.integral()) {
    if (real_type) return formatted_real(meter, spec, value);
    constexpr std::string_view kIntegerTypes = "bcdoxXn";
    if (spec.type != '\0' && kIntegerTypes.find(spec.type) == std::string_view::npos) {
      return unknown_type(spec.type, value);
    }
    return formatted_integer(meter, spec, value);
  }
  return jinja_error("unsupported format string passed to {}.__format__", value.type_name());
}

class BraceFormatter {
 public:
  BraceFormatter(JinjaRender& render, const JinjaText& text, const JinjaArgs& args)
      : render_(render), safe_(text.safe), args_(args) {}

  Result<std::string> expand(std::string_view text, int nesting);

 private:
  Result<std::string> field(std::string_view text, int nesting);
  Result<JinjaValue> value_of(std::string_view name);
  Result<JinjaValue> argument(std::string_view name);

  JinjaRender& render_;
  bool safe_;
  const JinjaArgs& args_;
  size_t next_automatic_ = 0;
  bool automatic_ = false;
  bool manual_ = false;
};

// The end of the field that begins after a '{': its '}', with the braces inside it balanced.
std::optional<size_t> field_end(std::string_view text, size_t begin) {
  int open = 1;
  for (size_t at = begin; at < text.size(); ++at) {
    if (text[at] == '{') ++open;
    if (text[at] == '}' && --open == 0) return at;
  }
  return std::nullopt;
}

Result<std::string> BraceFormatter::expand(std::string_view text, int nesting) {
  if (nesting > 2) return jinja_error("Max string recursion exceeded");
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      out += c;
      ++at;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      out += c;
      at += 2;
      continue;
    }
    if (c == '}') return jinja_error("Single '}}' encountered in format string");
    const auto end = field_end(text, at + 1);
    if (!end) return jinja_error("expected '}}' before end of string");
    PENSTOCK_ASSIGN(const std::string written, field(text.substr(at + 1, *end - at - 1), nesting));
    PENSTOCK_TRY(render_.meter().step_bytes(written.size()));
    PENSTOCK_TRY(render_.meter().has_room(out.size() + written.size()));
    out += written;
    at = *end + 1;
  }
  return out;
}

Result<std::string> BraceFormatter::field(std::string_view text, int nesting) {
  const size_t name_end = std::min(text.find_first_of("!:"), text.size());
  PENSTOCK_ASSIGN(JinjaValue value, value_of(text.substr(0, name_end)));
  size_t at = name_end;
  JinjaMeter& meter = render_.meter();
  if (at < text.size() && text[at] == '!') {
    const char conversion = at + 1 < text.size() ? text[at + 1] : '\0';
    at += 2;
    if (conversion != 'r' && conversion != 's' && conversion != 'a') {
      return jinja_error("Unknown conversion specifier '{}'", conversion);
    }
    PENSTOCK_ASSIGN(std::string converted,
                    conversion == 's' ? jinja_str(meter, value) : jinja_repr(meter, value));
    if (conversion == 'a') converted = py_ascii(converted);
    value = jinja_text(meter, std::move(converted));
  }
  if (at < text.size() && text[at] != ':') {
    return jinja_error("expected ':' after conversion specifier");
  }
  PENSTOCK_ASSIGN(const std::string spec,
                  expand(at < text.size() ? text.substr(at + 1) : "", nesting + 1));
  PENSTOCK_ASSIGN(std::string written, formatted(meter, value, spec));
  const bool escape = safe_ && !(value.is_text() && value.as_text()->safe);
  return escape ? html_escaped(written) : written;
}

Result<JinjaValue> BraceFormatter::argument(std::string_view name) {
  const bool numbered = !name.empty() && is_ascii_digit(name[0]);
  if (!name.empty() && !numbered) {
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    return jinja_error("no argument {}", py_quoted(name));
  }
  (numbered ? manual_ : automatic_) = true;
  if (manual_ && automatic_) {
    return jinja_error("cannot mix automatic and manual field numbering");
  }
  size_t at = 0;
  const size_t index = numbered ? take_number(name, at) : next_automatic_++;
  if (index < args_.positional.size()) return args_.positional[index];
  return jinja_error("Replacement index {} out of range for positional args tuple", index);
}

// name, .attribute and [index] one after the other.
Result<JinjaValue> BraceFormatter::value_of(std::string_view name) {
  size_t at = std::min(name.find_first_of(".["), name.size());
  PENSTOCK_ASSIGN(JinjaValue value, argument(name.substr(0, at)));
  while (at < name.size()) {
    if (name[at] == '.') {
      const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
      PENSTOCK_ASSIGN(value, get_attribute(render_, value, name.substr(at + 1, end - at - 1)));
      at = end;
      continue;
    }
    const size_t close = name[at] == '[' ? name.find(']', at) : std::string_view::npos;
    if (close == std::string_view::npos) return jinja_error("Missing ']' in format string");
    const std::string_view key = name.substr(at + 1, close - at - 1);
    size_t digits = 0;
    const size_t number = take_number(key, digits);
    const JinjaValue index = !key.empty() && digits == key.size()
                                 ? JinjaValue::integer(number)
                                 : jinja_text(render_.meter(), std::string(key));
    PENSTOCK_ASSIGN(value, get_item(render_, value, index));
    at = close + 1;
  }
  return value;
}

}  // namespace

Result<std::string> brace_formatted(JinjaRender& render, const JinjaText& text,
                                    const JinjaArgs& args) {
  return BraceFormatter(render, text, args).expand(text.bytes, 0);
}

}  // namespace penstock
