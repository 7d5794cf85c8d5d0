// Cuts a chat template into tokens: text between tags, and the words inside them.
//
// Whitespace is treated as transformers configures jinja2: a block tag takes the newline behind it
// (trim_blocks) and the blanks before it on its line (lstrip_blocks), `-` takes all whitespace, `+`
// none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace penstock {

enum class JinjaTokenKind {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct JinjaToken {
  JinjaTokenKind kind = JinjaTokenKind::kEnd;
  std::string text;  // decoded for strings
  int line = 0;
  JinjaInt integer = 0;
  double real = 0;

  bool is_name(std::string_view name) const {
    return kind == JinjaTokenKind::kName && text == name;
  }
  bool is_operator(std::string_view symbol) const {
    return kind == JinjaTokenKind::kOperator && text == symbol;
  }
};

// The tokens of a template that is valid UTF-8, the last of kind kEnd. Errors name the line.
Result<std::vector<JinjaToken>> tokenize_template(std::string_view source);

// Python's float(): "1.5", " -1e3 ", "inf", "nan", "1_000.5"; nothing when it is none.
std::optional<double> py_parse_float(std::string_view text);
// Python's int(text, base): nothing when it is none; `overflow` tells of one beyond JinjaInt.
std::optional<JinjaInt> py_parse_integer(std::string_view text, int base, bool& overflow);

}  // namespace penstock
