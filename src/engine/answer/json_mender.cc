#include "engine/answer/json_mender.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "engine/answer/text_scan.h"

namespace penstock {
namespace {

constexpr size_t kMaxWord = 4096;  // bytes; no number or name is longer

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool begins_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.' ||
         c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

std::string mended_word(const std::string& word) {
  if (word == "true" || word == "false" || word == "null") return word;
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  return is_json_number(word) ? word : json_quoted(word);
}

// Takes the digits from the front; false if there are none.
bool take_digits(std::string_view& text) {
  size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  text.remove_prefix(n);
  return n > 0;
}

bool has_number_grammar(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.starts_with('0')) {
    text.remove_prefix(1);
  } else if (!take_digits(text)) {
    return false;
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!take_digits(text)) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (!take_digits(text)) return false;
  }
  return text.empty();
}

}  // namespace

void append_escaped(std::string& json, char byte) {
  switch (byte) {
    case '"':
      json += "\\\"";
      return;
    case '\\':
      json += "\\\\";
      return;
    case '\n':
      json += "\\n";
      return;
    case '\r':
      json += "\\r";
      return;
    case '\t':
      json += "\\t";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(byte);
  if (code < 0x20) {
    fmt::format_to(std::back_inserter(json), "\\u{:04x}", code);
  } else {
    json += byte;
  }
}

std::string json_quoted(std::string_view text) {
  std::string json = "\"";
  for (const char byte : text) append_escaped(json, byte);
  return json + '"';
}

bool is_json_number(const std::string& text) {
  return has_number_grammar(text) && std::isfinite(std::strtod(text.c_str(), nullptr));
}

JsonMender::Step JsonMender::push(char byte, std::string& out) {
  if (state_ == State::kString) return push_string(byte, out);
  if (state_ == State::kWord) return push_word(byte, out);
  if (is_space(byte)) return Step::kMore;
  switch (state_) {
    case State::kElement:
      if (byte == ']') return close(byte, out);
      return begin_value(byte, out);
    case State::kKey:
      if (byte == '}') return close(byte, out);
      is_key_ = byte == '"';
      return is_key_ ? begin_value(byte, out) : broken(byte, out);
    case State::kColon:
      if (byte != ':') return broken(byte, out);
      out += byte;
      state_ = State::kValue;
      return Step::kMore;
    case State::kAfterValue:
      return push_after_value(byte, out);
    default:
      return begin_value(byte, out);
  }
}

JsonMender::Step JsonMender::begin_value(char byte, std::string& out) {
  if (byte == '"') {
    write_comma(out);
    out += byte;
    state_ = State::kString;
    return Step::kMore;
  }
  if (byte == '{' || byte == '[') {
    if (open_.size() == kMaxDepth) return broken(byte, out);
    write_comma(out);
    out += byte;
    open_.push_back(byte);
    state_ = byte == '{' ? State::kKey : State::kElement;
    return Step::kMore;
  }
  if (!begins_word(byte)) return broken(byte, out);
  word_ = byte;
  state_ = State::kWord;
  return Step::kMore;
}

JsonMender::Step JsonMender::end_value() {
  state_ = State::kAfterValue;
  return open_.empty() ? Step::kDone : Step::kMore;
}

JsonMender::Step JsonMender::close(char byte, std::string& out) {
  comma_ = false;
  out += byte;
  open_.pop_back();
  return end_value();
}

JsonMender::Step JsonMender::push_after_value(char byte, std::string& out) {
  const bool in_object = open_.back() == '{';
  if (byte == (in_object ? '}' : ']')) return close(byte, out);
  if (byte != ',') return broken(byte, out);
  comma_ = true;
  state_ = in_object ? State::kKey : State::kElement;
  return Step::kMore;
}

JsonMender::Step JsonMender::push_string(char byte, std::string& out) {
  if (!escape_.empty()) return push_escape(byte, out);
  if (byte == '\\') {
    escape_ = byte;
    return Step::kMore;
  }
  if (byte != '"') {
    append_escaped(out, byte);
    return Step::kMore;
  }
  out += byte;
  if (!std::exchange(is_key_, false)) return end_value();
  state_ = State::kColon;
  return Step::kMore;
}

JsonMender::Step JsonMender::push_escape(char byte, std::string& out) {
  constexpr std::string_view kShort = "\"\\/bfnrt";
  const bool begins_code = escape_.size() == 1 && byte == 'u';
  const bool is_code = escape_.size() > 1 && std::isxdigit(static_cast<unsigned char>(byte)) != 0;
  if (begins_code || is_code) {
    escape_ += byte;
    if (escape_.size() == 6) out += std::exchange(escape_, {});
    return Step::kMore;
  }
  const std::string begun = std::exchange(escape_, {});
  if (begun.size() == 1 && kShort.find(byte) != std::string_view::npos) {
    out += begun + byte;
    return Step::kMore;
  }
  // The backslash was meant as one.
  out += '\\' + begun;
  return push_string(byte, out);
}

JsonMender::Step JsonMender::push_word(char byte, std::string& out) {
  if (!is_space(byte) && byte != ',' && byte != '}' && byte != ']') {
    const bool ends_no_word = byte == '"' || byte == '{' || byte == '[' || byte == ':';
    if (ends_no_word || word_.size() == kMaxWord) return broken(byte, out);
    word_ += byte;
    return Step::kMore;
  }
  write_comma(out);
  out += mended_word(std::exchange(word_, {}));
  if (end_value() == Step::kDone) return Step::kDoneBefore;
  return push(byte, out);
}

JsonMender::Step JsonMender::broken(char byte, std::string& out) {
  flush(out);
  out += byte;
  return Step::kBroken;
}

void JsonMender::flush(std::string& out) {
  write_comma(out);
  out += std::exchange(word_, {});
  out += std::exchange(escape_, {});
}

void JsonMender::write_comma(std::string& out) {
  if (std::exchange(comma_, false)) out += ',';
}

}  // namespace penstock
