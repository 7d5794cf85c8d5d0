#include "text/jinja/format.h"

#include <cctype>
#include <cmath>
#include <cstdio>

#include "base/html.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"
#include "text/jinja/unicode.h"

namespace penstock {
namespace {

// No template needs more digits; more would only take time.
constexpr size_t kMaxPrecision = 1000;

// Whatever Python could index by key may stay unused, for "%(key)s" might have been meant.
bool may_go_unused(const JinjaValue& values) {
  return values.is_dict() || values.is_list() || values.is_undefined() ||
         values.as_range() != nullptr;
}

// Walks over "...%d..." and takes values from the right-hand side as it goes.
class PercentFormatter {
 public:
  PercentFormatter(JinjaMeter& meter, const JinjaText& text, const JinjaValue& values)
      : meter_(meter), text_(text), values_(values) {}

  Result<std::string> run();

 private:
  Result<void> write_directive();
  Result<JinjaValue> keyed_value();
  Result<JinjaValue> next_value();
  Result<size_t> number_or_star(FormatSpec& spec, bool is_width);
  Result<FormatSpec> parse_spec();
  Result<std::string> text_argument(char type, const JinjaValue& value);
  Result<std::string> formatted(const FormatSpec& spec, const JinjaValue& value);
  Result<std::string> formatted_integer(const FormatSpec& spec, const JinjaValue& value);
  Result<std::string> formatted_real(const FormatSpec& spec, const JinjaValue& value);

  char peek() const { return at_ < text_.bytes.size() ? text_.bytes[at_] : '\0'; }

  JinjaMeter& meter_;
  const JinjaText& text_;
  const JinjaValue& values_;
  std::optional<JinjaValue> keyed_;  // of the directive being written, when it named one
  size_t at_ = 0;
  size_t taken_ = 0;
  bool used_key_ = false;
  std::string out_;
};

Result<std::string> PercentFormatter::run() {
  while (at_ < text_.bytes.size()) {
    const size_t percent = std::min(text_.bytes.find('%', at_), text_.bytes.size());
    out_ += text_.bytes.substr(at_, percent - at_);
    at_ = percent;
    if (at_ == text_.bytes.size()) break;
    ++at_;
    PENSTOCK_TRY(meter_.step_bytes(out_.size() - std::min(out_.size(), percent)));
    PENSTOCK_TRY(meter_.has_room(out_.size()));
    PENSTOCK_TRY(write_directive());
  }
  const bool all_used = values_.is_tuple() ? taken_ == values_.as_sequence()->items.size()
                                           : taken_ == 1 || used_key_ || may_go_unused(values_);
  if (!all_used) return jinja_error("not all arguments converted during string formatting");
  return std::move(out_);
}

Result<JinjaValue> PercentFormatter::keyed_value() {
  const size_t close = text_.bytes.find(')', at_);
  if (close == std::string::npos) return jinja_error("incomplete format key");
  const std::string_view key = std::string_view(text_.bytes).substr(at_ + 1, close - at_ - 1);
  at_ = close + 1;
  used_key_ = true;
  if (!values_.is_dict()) return jinja_error("format requires a mapping");
  const JinjaValue* value = values_.as_dict()->find(key);
  if (value == nullptr) return jinja_error("no value for the format key {}", py_quoted(key));
  return *value;
}

Result<JinjaValue> PercentFormatter::next_value() {
  if (keyed_) return *keyed_;
  if (values_.is_tuple()) {
    const JinjaValues& items = values_.as_sequence()->items;
    if (taken_ < items.size()) return items[taken_++];
  } else if (taken_ == 0) {
    ++taken_;
    return values_;
  }
  return jinja_error("not enough arguments for format string");
}

Result<size_t> PercentFormatter::number_or_star(FormatSpec& spec, bool is_width) {
  if (peek() == '*') {
    ++at_;
    PENSTOCK_ASSIGN(const JinjaValue value, next_value());
    const auto number = value.integral();
    if (!number) return jinja_error("* wants int");
    if (*number < 0 && is_width) spec.align = '<';
    const JinjaInt size = *number < 0 ? (is_width ? -*number : 0) : *number;
    return static_cast<size_t>(std::min(size, JinjaInt{SIZE_MAX}));
  }
  size_t number = 0;
  while (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
    number = std::min<size_t>(number * 10 + static_cast<size_t>(peek() - '0'), SIZE_MAX / 16);
    ++at_;
  }
  return number;
}

Result<FormatSpec> PercentFormatter::parse_spec() {
  FormatSpec spec;
  for (; at_ < text_.bytes.size(); ++at_) {
    const char flag = peek();
    if (flag == '-') {
      spec.align = '<';
    } else if (flag == '0') {
      spec.fill = "0";
    } else if (flag == '+' || (flag == ' ' && spec.sign != '+')) {
      spec.sign = flag;
    } else if (flag == '#') {
      spec.alternate = true;
    } else if (flag != ' ') {
      break;
    }
  }
  PENSTOCK_ASSIGN(spec.width, number_or_star(spec, /*is_width=*/true));
  if (peek() == '.') {
    ++at_;
    PENSTOCK_ASSIGN(spec.precision, number_or_star(spec, /*is_width=*/false));
  }
  while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
  if (at_ == text_.bytes.size()) return jinja_error("incomplete format");
  spec.type = text_.bytes[at_++];
  if (spec.align == '<') spec.fill = " ";
  return spec;
}

Result<void> PercentFormatter::write_directive() {
  keyed_.reset();
  if (peek() == '(') {
    PENSTOCK_ASSIGN(keyed_, keyed_value());
  }
  PENSTOCK_ASSIGN(const FormatSpec spec, parse_spec());
  if (spec.type == '%') {
    out_ += '%';
    return {};
  }
  if (std::string_view("diouxXeEfFgGcrsa").find(spec.type) == std::string_view::npos) {
    return jinja_error("unsupported format character '{}'", spec.type);
  }
  PENSTOCK_ASSIGN(const JinjaValue value, next_value());
  PENSTOCK_ASSIGN(const std::string written, formatted(spec, value));
  out_ += written;
  return {};
}

Result<std::string> PercentFormatter::text_argument(char type, const JinjaValue& value) {
  if (type == 'c') {
    if (const auto text = text_of(value); text && py_count_characters(*text) == 1) {
      return std::string(*text);
    }
    const auto code = value.integral();
    if (!code || *code < 0 || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)) {
      return jinja_error("%c requires int or char");
    }
    std::string out;
    py_append_character(out, static_cast<char32_t>(*code));
    return out;
  }
  PENSTOCK_ASSIGN(std::string out,
                  type == 's' ? jinja_str(meter_, value) : jinja_repr(meter_, value));
  if (type == 'a') out = py_ascii(out);
  const bool is_safe = value.is_text() && value.as_text()->safe;
  return text_.safe && !(is_safe && type == 's') ? html_escaped(out) : out;
}

Result<std::string> PercentFormatter::formatted(const FormatSpec& spec, const JinjaValue& value) {
  if (std::string_view("diouxX").find(spec.type) != std::string_view::npos) {
    return formatted_integer(spec, value);
  }
  if (std::string_view("eEfFgG").find(spec.type) != std::string_view::npos) {
    return formatted_real(spec, value);
  }
  PENSTOCK_ASSIGN(std::string body, text_argument(spec.type, value));
  if (spec.precision) body.resize(py_byte_of_character(body, *spec.precision));
  FormatSpec layout = spec;
  layout.fill = " ";
  return padded(meter_, layout, "", body, '>');
}

Result<std::string> PercentFormatter::formatted_integer(const FormatSpec& spec,
                                                        const JinjaValue& value) {
  const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
  auto integer = value.integral();
  if (!integer && decimal && value.is_float()) {
    const double real = std::trunc(*value.as_float());
    if (!(std::fabs(real) < 0x1p127)) return jinja_error("cannot convert {} to an integer", real);
    integer = static_cast<JinjaInt>(real);
  }
  if (!integer) {
    return jinja_error("%{} format: a number is required, not {}", spec.type, value.type_name());
  }
  std::string digits = integer_digits(*integer, decimal ? 'd' : spec.type);
  if (spec.precision) {
    const size_t wanted = std::min(*spec.precision, kMaxPrecision);
    if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
  }
  const std::string prefix =
      spec.alternate && !decimal ? std::string("0") + spec.type : std::string();
  return padded(meter_, spec, sign_of(*integer < 0, spec.sign) + prefix, digits, '>');
}

Result<std::string> PercentFormatter::formatted_real(const FormatSpec& spec,
                                                     const JinjaValue& value) {
  const auto real = value.number();
  if (!real) return jinja_error("must be real number, not {}", value.type_name());
  const std::string digits =
      format_real(std::fabs(*real), spec.type, spec.precision.value_or(6), spec.alternate);
  return padded(meter_, spec, sign_of(std::signbit(*real), spec.sign), digits, '>');
}

}  // namespace

std::string integer_digits(JinjaInt value, char type) {
  if (type == 'd') {
    const std::string digits = py_integer(value);
    return value < 0 ? digits.substr(1) : digits;
  }
  __extension__ typedef unsigned __int128 Magnitude;
  auto left = static_cast<Magnitude>(value);
  if (value < 0) left = 0 - left;
  const unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : 16;
  const char* symbols = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits.push_back(symbols[static_cast<size_t>(left % base)]);
    left /= base;
  } while (left != 0);
  return {digits.rbegin(), digits.rend()};
}

std::string sign_of(bool negative, char sign) {
  if (negative) return "-";
  return sign == '-' ? std::string() : std::string(1, sign);
}

std::string format_real(double magnitude, char type, size_t precision, bool alternate) {
  const bool upper = type == 'E' || type == 'F' || type == 'G';
  if (std::isnan(magnitude)) return upper ? "NAN" : "nan";
  if (std::isinf(magnitude)) return upper ? "INF" : "inf";
  if (type == '%') {
    return format_real(magnitude * 100.0, 'f', precision, alternate) + "%";
  }
  const std::string pattern = std::string(alternate ? "%#.*" : "%.*") + type;
  const int digits = static_cast<int>(std::min(precision, kMaxPrecision));
  const int size = std::snprintf(nullptr, 0, pattern.c_str(), digits, magnitude);
  std::string out(static_cast<size_t>(size), '\0');
  std::snprintf(out.data(), out.size() + 1, pattern.c_str(), digits, magnitude);
  return out;
}

Result<std::string> padded(JinjaMeter& meter, const FormatSpec& spec, std::string_view sign,
                           std::string_view body, char default_align) {
  const size_t length = sign.size() + py_count_characters(body);
  if (spec.width <= length) return std::string(sign) + std::string(body);
  const size_t missing = spec.width - length;
  PENSTOCK_TRY(meter.has_room(missing, spec.fill.size()));
  const char align = spec.align != '\0' ? spec.align : spec.fill == "0" ? '=' : default_align;
  const size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string out(align == '=' ? sign : "");
  for (size_t i = 0; i < before; ++i) out += spec.fill;
  if (align != '=') out += sign;
  out += body;
  for (size_t i = before; i < missing; ++i) out += spec.fill;
  return out;
}

Result<std::string> percent_formatted(JinjaMeter& meter, const JinjaText& text,
                                      const JinjaValue& values) {
  return PercentFormatter(meter, text, values).run();
}

}  // namespace penstock
