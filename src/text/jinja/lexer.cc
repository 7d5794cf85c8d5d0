#include "text/jinja/lexer.h"

#include <algorithm>
#include <cctype>

#include "text/jinja/unicode.h"

namespace penstock {
namespace {

using Kind = JinjaTokenKind;

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

// "\r\n" and "\r" become "\n", and one newline at the very end goes.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), text_(source_) {}

  Result<std::vector<JinjaToken>> run();

 private:
  struct RawEnd {
    size_t begin = 0, end = 0;
    char sign = '\0';
  };

  template <class... Args>
  std::unexpected<Error> error(fmt::format_string<Args...> format, Args&&... args) const {
    return jinja_error("line {}: {}", line_, fmt::format(format, std::forward<Args>(args)...));
  }

  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool starts_with(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  void advance_to(size_t position);
  void skip_space();
  void add(Kind kind, std::string_view text);
  void add_data(std::string_view text, char sign, bool block_tag);

  Result<void> lex_tag();
  bool take_raw_begin(size_t open);
  std::optional<RawEnd> find_raw_end() const;
  Result<void> lex_raw();
  Result<void> lex_comment();
  Result<void> lex_inside(bool block);
  bool take_tag_end(bool block);
  Result<void> lex_word();
  bool lex_float();
  Result<bool> lex_integer();
  Result<void> lex_string();
  Result<std::string> unescaped(std::string_view text) const;
  Result<void> lex_operator();

  std::string source_;
  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag ended with a newline, or there was none
  std::string brackets_;       // the closing brackets that are awaited
  std::vector<JinjaToken> tokens_;
};

Result<std::vector<JinjaToken>> Lexer::run() {
  while (at_ < text_.size()) {
    size_t open = text_.find('{', at_);
    while (open != std::string_view::npos && open + 1 < text_.size() &&
           std::string_view("{%#").find(text_[open + 1]) == std::string_view::npos) {
      open = text_.find('{', open + 1);
    }
    if (open == std::string_view::npos || open + 1 >= text_.size()) {
      add(Kind::kData, text_.substr(at_));
      advance_to(text_.size());
      break;
    }
    const char sign = open + 2 < text_.size() ? text_[open + 2] : '\0';
    add_data(text_.substr(at_, open - at_), sign, text_[open + 1] != '{');
    advance_to(open);
    PENSTOCK_TRY(lex_tag());
  }
  add(Kind::kEnd, "");
  return std::move(tokens_);
}

void Lexer::advance_to(size_t position) {
  line_ += static_cast<int>(std::ranges::count(text_.substr(at_, position - at_), '\n'));
  at_ = position;
}

void Lexer::skip_space() { advance_to(text_.size() - py_lstrip(text_.substr(at_)).size()); }

void Lexer::add(Kind kind, std::string_view text) {
  if (kind == Kind::kData && text.empty()) return;
  tokens_.push_back({.kind = kind, .text = std::string(text), .line = line_});
}

// Adds the text before a tag that has `sign` behind its opening.
void Lexer::add_data(std::string_view text, char sign, bool block_tag) {
  if (sign == '-') return add(Kind::kData, py_rstrip(text));
  if (sign != '+' && block_tag) {
    const size_t line_begin = text.rfind('\n') + 1;  // 0 where there is no newline
    if ((line_begin > 0 || line_starting_) && py_strip(text.substr(line_begin)).empty()) {
      text = text.substr(0, line_begin);
    }
  }
  add(Kind::kData, text);
}

Result<void> Lexer::lex_tag() {
  const char kind = peek(1);
  if (kind == '%' && take_raw_begin(at_)) return lex_raw();
  const bool has_sign = peek(2) == '-' || peek(2) == '+';
  if (kind == '#') {
    advance_to(at_ + (has_sign ? 3 : 2));
    return lex_comment();
  }
  add(kind == '{' ? Kind::kVariableBegin : Kind::kBlockBegin, "");
  advance_to(at_ + (has_sign ? 3 : 2));
  return lex_inside(kind == '%');
}

// {% raw %}, {%- raw -%} and so on; false and nothing taken when it is another tag.
bool Lexer::take_raw_begin(size_t open) {
  std::string_view rest = text_.substr(open + 2);
  if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
  rest = py_lstrip(rest);
  if (!rest.starts_with("raw")) return false;
  rest = py_lstrip(rest.substr(3));
  const bool strips = rest.starts_with("-%}");
  if (!strips && !rest.starts_with("%}")) return false;
  rest.remove_prefix(strips ? 3 : 2);
  if (strips) rest = py_lstrip(rest);
  advance_to(text_.size() - rest.size());
  line_starting_ = text_[at_ - 1] == '\n';
  return true;
}

std::optional<Lexer::RawEnd> Lexer::find_raw_end() const {
  for (size_t open = text_.find("{%", at_); open != std::string_view::npos;
       open = text_.find("{%", open + 1)) {
    std::string_view rest = text_.substr(open + 2);
    RawEnd found;
    found.begin = open;
    if (rest.starts_with('-') || rest.starts_with('+')) {
      found.sign = rest[0];
      rest.remove_prefix(1);
    }
    rest = py_lstrip(rest);
    if (!rest.starts_with("endraw")) continue;
    rest = py_lstrip(rest.substr(6));
    const char mark = rest.empty() ? '\0' : rest[0];
    if (mark == '-' || mark == '+') rest.remove_prefix(1);
    if (!rest.starts_with("%}")) continue;
    rest.remove_prefix(2);
    if (mark == '-') rest = py_lstrip(rest);
    if (mark == '%' && rest.starts_with('\n')) rest.remove_prefix(1);
    found.end = text_.size() - rest.size();
    return found;
  }
  return std::nullopt;
}

Result<void> Lexer::lex_raw() {
  if (at_ == text_.size()) return {};  // jinja2 misses the end only of what has a content
  const auto found = find_raw_end();
  if (!found) return error("Missing end of raw directive");
  add_data(text_.substr(at_, found->begin - at_), found->sign, true);
  advance_to(found->end);
  line_starting_ = text_[at_ - 1] == '\n';
  return {};
}

Result<void> Lexer::lex_comment() {
  if (at_ == text_.size()) return {};  // as with raw
  const size_t close = text_.find("#}", at_);
  if (close == std::string_view::npos) return error("Missing end of comment tag");
  const char mark = close > at_ ? text_[close - 1] : '\0';
  advance_to(close + 2);
  if (mark == '-') {
    skip_space();
  } else if (mark != '+' && peek() == '\n') {
    advance_to(at_ + 1);
  }
  line_starting_ = text_[at_ - 1] == '\n';
  return {};
}

Result<void> Lexer::lex_inside(bool block) {
  brackets_.clear();
  while (true) {
    if (brackets_.empty() && take_tag_end(block)) return {};
    if (at_ == text_.size()) return {};
    size_t after = at_;
    if (py_is_space(py_next_character(text_, after))) {
      skip_space();
    } else {
      PENSTOCK_TRY(lex_word());
    }
  }
}

bool Lexer::take_tag_end(bool block) {
  const std::string_view close = block ? "%}" : "}}";
  const bool strips = peek() == '-' && text_.substr(at_ + 1).starts_with(close);
  const bool keeps = block && peek() == '+' && text_.substr(at_ + 1).starts_with(close);
  if (!strips && !keeps && !starts_with(close)) return false;
  add(block ? Kind::kBlockEnd : Kind::kVariableEnd, "");
  advance_to(at_ + (strips || keeps ? 3 : 2));
  if (strips) {
    skip_space();
  } else if (block && !keeps && peek() == '\n') {
    advance_to(at_ + 1);
  }
  line_starting_ = text_[at_ - 1] == '\n';
  return true;
}

Result<void> Lexer::lex_word() {
  if (is_ascii_digit(peek())) {
    if (lex_float()) return {};
    PENSTOCK_ASSIGN(const bool taken, lex_integer());
    if (taken) return {};
  }
  if (peek() == '"' || peek() == '\'') return lex_string();
  size_t end = at_;
  while (end < text_.size()) {
    size_t after = end;
    if (!py_is_word(py_next_character(text_, after))) break;
    end = after;
  }
  if (end == at_) return lex_operator();
  const std::string_view name = text_.substr(at_, end - at_);
  if (!py_is_identifier(name)) return error("Invalid character in identifier");
  add(Kind::kName, name);
  at_ = end;
  return {};
}

// Digits with single underscores between them, from `begin`; the end, or nothing.
std::optional<size_t> digits_end(std::string_view text, size_t begin) {
  size_t at = begin;
  while (at < text.size() && is_ascii_digit(text[at])) {
    ++at;
    if (at + 1 < text.size() && text[at] == '_' && is_ascii_digit(text[at + 1])) ++at;
  }
  if (at == begin) return std::nullopt;
  return at;
}

bool Lexer::lex_float() {
  if (at_ > 0 && text_[at_ - 1] == '.') return false;  // x.1.5 is two subscripts
  size_t end = digits_end(text_, at_).value_or(at_);
  bool is_float = false;
  if (end < text_.size() && text_[end] == '.') {
    if (const auto fraction = digits_end(text_, end + 1)) {
      end = *fraction;
      is_float = true;
    }
  }
  if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    const bool signed_exponent =
        end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-');
    if (const auto exponent = digits_end(text_, end + (signed_exponent ? 2 : 1))) {
      end = *exponent;
      is_float = true;
    }
  }
  if (!is_float) return false;
  add(Kind::kFloat, text_.substr(at_, end - at_));
  tokens_.back().real = py_parse_float(tokens_.back().text).value_or(0);
  at_ = end;
  return true;
}

Result<bool> Lexer::lex_integer() {
  const char mark = static_cast<char>(std::tolower(static_cast<unsigned char>(peek(1))));
  size_t end = at_;
  bool overflow = false;
  std::optional<JinjaInt> value;
  if (peek() == '0' && (mark == 'x' || mark == 'o' || mark == 'b')) {
    end = at_ + 2;
    while (end < text_.size() &&
           (std::isxdigit(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_')) {
      ++end;
    }
    // 0b12 is 0b1 and then 2: a binary number ends where its digits do.
    while (end > at_ + 2 && !value && !overflow) {
      value = py_parse_integer(text_.substr(at_, end - at_), 0, overflow);
      if (!value && !overflow) --end;
    }
  }
  if (!value && !overflow) {
    end = digits_end(text_, at_).value_or(at_);
    if (peek() == '0') {  // 0, 00, 0_0 are zero; 012 is 0 and then 12
      end = at_ + 1;
      while (end < text_.size() &&
             (text_[end] == '0' ||
              (text_[end] == '_' && end + 1 < text_.size() && text_[end + 1] == '0'))) {
        ++end;
      }
    }
    value = py_parse_integer(text_.substr(at_, end - at_), 10, overflow);
  }
  if (overflow) return error("an integer beyond 128 bits");
  if (!value) return false;
  add(Kind::kInteger, text_.substr(at_, end - at_));
  tokens_.back().integer = *value;
  at_ = end;
  return true;
}

Result<void> Lexer::lex_string() {
  const char quote = peek();
  size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size()) return error("unexpected char {}: a string that does not end", quote);
  PENSTOCK_ASSIGN(const std::string value, unescaped(text_.substr(at_ + 1, end - at_ - 1)));
  add(Kind::kString, value);
  advance_to(end + 1);
  return {};
}

// How many hexadecimal digits follow \x, \u and \U.
size_t hex_digits_after(char escape) {
  return escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
}

// Python's escapes; an unknown one stands for itself, backslash included.
Result<std::string> Lexer::unescaped(std::string_view text) const {
  constexpr std::string_view kFrom = "\\'\"abfnrtv";
  constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out += text[at++];
      continue;
    }
    const char c = text[at + 1];
    at += 2;
    if (const size_t known = kFrom.find(c); known != std::string_view::npos) {
      out += kTo[known];
    } else if (c == '\n') {
      continue;  // the line goes on
    } else if (c >= '0' && c <= '7') {
      uint32_t code = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i) {
        code = code * 8 + static_cast<uint32_t>(text[at++] - '0');
      }
      py_append_character(out, code);
    } else if (const size_t n = hex_digits_after(c); n > 0) {
      const std::string_view digits = text.substr(at, n);
      bool overflow = false;
      const auto code = digits.find_first_of("_+- ") == std::string_view::npos
                            ? py_parse_integer(digits, 16, overflow)
                            : std::nullopt;
      if (digits.size() < n || !code) return error("truncated \\{} escape in a string", c);
      if (*code > 0x10ffff) return error("a character beyond U+10FFFF in a string");
      if (*code >= 0xd800 && *code < 0xe000) return error("half a surrogate pair in a string");
      py_append_character(out, static_cast<char32_t>(*code));
      at += n;
    } else if (c == 'N') {
      return error("named characters (\\N) are not supported");
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

Result<void> Lexer::lex_operator() {
  constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                             "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                             ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
  for (const std::string_view symbol : kOperators) {
    if (!starts_with(symbol)) continue;
    const char c = symbol[0];
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c == '{') brackets_ += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) return error("unexpected '{}'", c);
      if (brackets_.back() != c)
        return error("unexpected '{}', expected '{}'", c, brackets_.back());
      brackets_.pop_back();
    }
    add(Kind::kOperator, symbol);
    at_ += symbol.size();
    return {};
  }
  size_t after = at_;
  py_next_character(text_, after);
  return error("unexpected char '{}'", text_.substr(at_, after - at_));
}

}  // namespace

Result<std::vector<JinjaToken>> tokenize_template(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace penstock
