// Python's two ways to format text: "%s" % values, and "{}".format(values).
#pragma once

#include "text/jinja/value.h"

namespace penstock {

// text % values. Where `text` is marked safe, what is put into it is escaped.
Result<std::string> percent_formatted(JinjaMeter& meter, const JinjaText& text,
                                      const JinjaValue& values);
// text.format(*args.positional, **args.named).
Result<std::string> brace_formatted(JinjaRender& render, const JinjaText& text,
                                    const JinjaArgs& args);

// How one value is laid out: the fields of Python's format specification.
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  // one of < > = ^, or none given
  char sign = '-';    // one of + - space
  bool alternate = false;
  size_t width = 0;
  char grouping = '\0';  // ',' or '_' between thousands
  std::optional<size_t> precision;
  char type = '\0';
};

// Digits of an integer without its sign, for the types d b o x X.
std::string integer_digits(JinjaInt value, char type);
// "-", or what `sign` puts before numbers that are not negative.
std::string sign_of(bool negative, char sign);
// Digits of a number without its sign, for the types e E f F g G %.
std::string format_real(double magnitude, char type, size_t precision, bool alternate);
// `body` with its sign, filled to spec.width.
Result<std::string> padded(JinjaMeter& meter, const FormatSpec& spec, std::string_view sign,
                           std::string_view body, char default_align);

}  // namespace penstock
