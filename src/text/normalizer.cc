#include "text/normalizer.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "text/unicode.h"

namespace penstock {
namespace {

struct FreeBytes {
  void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
};

// Whether this character is its own normal form, begins a new stretch of text for it, and never
// joins the character before: text may be cut in front of it. Only ranges that texts are full of
// are named; a test holds them against utf8proc.
bool is_inert(char32_t c, Normalizer::Form form) {
  if (c < 0x80) return true;
  if (form != Normalizer::Form::kNfc) return false;
  return c < 0x300 ||                                                     // Latin
         (c >= 0x410 && c <= 0x44F) ||                                    // Russian
         (c >= 0x2010 && c <= 0x2027) ||                                  // dashes, quotes, dots
         (c >= 0x3001 && c <= 0x3029) ||                                  // CJK punctuation
         (c >= 0x3041 && c <= 0x3096) ||                                  // hiragana
         (c >= 0x30A1 && c <= 0x30FA) ||                                  // katakana
         (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) ||  // Chinese
         (c >= 0xAC00 && c <= 0xD7A3);                                    // Korean syllables
}

// How many bytes at the front of `text` are its inert characters, and where the last of them
// begins.
struct InertPrefix {
  size_t bytes = 0;
  size_t last = 0;
};

InertPrefix inert_prefix(std::string_view text, Normalizer::Form form) {
  InertPrefix prefix;
  while (true) {
    if (const size_t ascii = ascii_prefix(text.substr(prefix.bytes)); ascii > 0) {
      prefix.bytes += ascii;
      prefix.last = prefix.bytes - 1;
    }
    std::string_view rest = text.substr(prefix.bytes);
    if (rest.empty() || !is_inert(take_character(rest), form)) return prefix;
    prefix.last = prefix.bytes;
    prefix.bytes = text.size() - rest.size();
  }
}

size_t other_prefix(std::string_view text, Normalizer::Form form) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view after = rest;
    if (is_inert(take_character(after), form)) break;
    rest = after;
  }
  return text.size() - rest.size();
}

utf8proc_option_t options_of(Normalizer::Form form) {
  using Form = Normalizer::Form;
  const bool composed = form == Form::kNfc || form == Form::kNfkc;
  const bool compatible = form == Form::kNfkc || form == Form::kNfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                        (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (compatible ? UTF8PROC_COMPAT : 0));
}

Result<void> append_form(std::string_view text, Normalizer::Form form, std::string& out) {
  utf8proc_uint8_t* made = nullptr;
  const auto n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                              static_cast<utf8proc_ssize_t>(text.size()), &made, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, FreeBytes> owner(made);
  if (n < 0) {
    return fail(ErrorKind::kExhausted, "cannot normalise a text of {} bytes: {}", text.size(),
                utf8proc_errmsg(n));
  }
  out.append(reinterpret_cast<const char*>(made), static_cast<size_t>(n));
  return {};
}

// Inert characters are copied; the stretches between them, each with the inert character it may
// join, go to utf8proc.
Result<std::string> to_form(std::string_view text, Normalizer::Form form) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const InertPrefix inert = inert_prefix(text, form);
    if (inert.bytes == text.size()) break;
    out += text.substr(0, inert.last);
    text.remove_prefix(inert.last);
    const size_t joinable = inert.bytes - inert.last;
    const size_t stretch = joinable + other_prefix(text.substr(joinable), form);
    PENSTOCK_TRY(append_form(text.substr(0, stretch), form, out));
    text.remove_prefix(stretch);
  }
  out += text;
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char32_t c = take_character(text);
    if (c == 0x130) {  // the one letter whose lower case is two characters: i and a dot above
      out += "i\u0307";
    } else {
      append_character(out,
                       static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return out;
}

std::string strip(std::string_view text, Normalizer::Strip sides) {
  while (sides.left && !text.empty()) {
    std::string_view rest = text;
    if (!is_white_space(take_character(rest))) break;
    text = rest;
  }
  while (sides.right && !text.empty()) {
    const char32_t last = last_character(text);
    if (!is_white_space(last)) break;
    std::string bytes;
    append_character(bytes, last);
    text.remove_suffix(bytes.size());
  }
  return std::string(text);
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != std::string_view::npos;
       at = found + from.size()) {
    out.append(text, at, found - at);
    out += to;
  }
  out.append(text, at);
  return out;
}

Result<std::string> replace(std::string_view text, const Normalizer::Replace& step,
                            RegexScratch& scratch) {
  if (const auto* literal = std::get_if<std::string>(&step.pattern)) {
    return replace_all(text, *literal, step.content);
  }
  std::vector<TextSpan> matches;
  PENSTOCK_TRY(std::get<Regex>(step.pattern).find_all(text, scratch, matches));
  std::string out;
  size_t at = 0;
  for (const TextSpan match : matches) {
    out.append(text, at, match.begin - at);
    out += step.content;
    at = match.end;
  }
  out.append(text, at);
  return out;
}

struct Apply {
  std::string_view text;
  RegexScratch& scratch;

  Result<std::string> operator()(Normalizer::Form form) const { return to_form(text, form); }
  Result<std::string> operator()(const Normalizer::Prepend& step) const {
    return text.empty() ? std::string() : step.prefix + std::string(text);
  }
  Result<std::string> operator()(const Normalizer::Replace& step) const {
    return replace(text, step, scratch);
  }
  Result<std::string> operator()(Normalizer::Lowercase) const { return to_lower(text); }
  Result<std::string> operator()(Normalizer::Strip step) const { return strip(text, step); }
};

Result<Normalizer::Step> replace_from_json(const JsonObject& step) {
  Normalizer::Replace replace;
  PENSTOCK_ASSIGN(replace.content, step.text("content"));
  PENSTOCK_ASSIGN(const JsonObject pattern, step.object("pattern"));
  if (pattern.find("Regex") != nullptr) {
    PENSTOCK_ASSIGN(const std::string source, pattern.text("Regex"));
    auto regex = Regex::compile(source);
    if (!regex) return std::unexpected(regex.error().in(step.where));
    replace.pattern = *std::move(regex);
  } else {
    PENSTOCK_ASSIGN(std::string literal, pattern.text("String"));
    if (literal.empty()) {
      return fail(ErrorKind::kInvalidData, "{} is empty; expected the text to replace",
                  pattern.path("String"));
    }
    replace.pattern = std::move(literal);
  }
  return replace;
}

Result<Normalizer::Step> step_from_json(const JsonObject& step) {
  using Form = Normalizer::Form;
  PENSTOCK_ASSIGN(const std::string type, step.text("type"));
  if (type == "NFC") return Form::kNfc;
  if (type == "NFD") return Form::kNfd;
  if (type == "NFKC") return Form::kNfkc;
  if (type == "NFKD") return Form::kNfkd;
  if (type == "Lowercase") return Normalizer::Lowercase{};
  if (type == "Replace") return replace_from_json(step);
  if (type == "Prepend") {
    Normalizer::Prepend prepend;
    PENSTOCK_ASSIGN(prepend.prefix, step.text("prepend"));
    return prepend;
  }
  if (type == "Strip") {
    Normalizer::Strip sides;
    PENSTOCK_ASSIGN(sides.left, step.flag_or("strip_left", true));
    PENSTOCK_ASSIGN(sides.right, step.flag_or("strip_right", true));
    return sides;
  }
  return fail(ErrorKind::kUnsupported,
              "{} is \"{}\"; supported are NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, "
              "Strip and Sequence",
              step.path("type"), type);
}

}  // namespace

Result<Normalizer> Normalizer::from_json(const nlohmann::json* value) {
  PENSTOCK_ASSIGN(const auto parts, json_steps(value, "normalizer", "normalizers"));
  std::vector<Step> steps;
  for (const JsonObject& part : parts) {
    PENSTOCK_ASSIGN(steps.emplace_back(), step_from_json(part));
  }
  return Normalizer(std::move(steps));
}

Result<std::string_view> Normalizer::apply(std::string_view text, RegexScratch& scratch,
                                           std::string& buffer) const {
  for (const Step& step : steps_) {
    const auto* form = std::get_if<Form>(&step);
    if (form != nullptr && inert_prefix(text, *form).bytes == text.size())
      continue;  // the usual case
    PENSTOCK_ASSIGN(std::string made, std::visit(Apply{text, scratch}, step));
    buffer = std::move(made);
    text = buffer;
  }
  return text;
}

}  // namespace penstock
