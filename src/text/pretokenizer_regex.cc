#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenizer_regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>

#include "text/unicode.h"

namespace penstock {
namespace {

// Oniguruma's \s is Unicode's White_Space; PCRE2's has U+180E too.
constexpr std::string_view kSpaceClass = R"(\t-\r\x{85}\p{Z})";
// Its \w is Alphabetic, marks, digits, connectors, and of Latin-1 the superscripts and fractions.
// The ranges at the end are the symbols that are Alphabetic: letters in circles and squares.
constexpr std::string_view kWordClass =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})"
    R"(\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using MatchData = std::unique_ptr<pcre2_match_data, FreeMatch>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeContext>;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 160> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// Steps that an honest pattern may need: a few per byte, backing off one by one at the end of a
// long run.
uint32_t step_limit(size_t text_bytes) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(1'000'000 + 16 * uint64_t{text_bytes}, UINT32_MAX));
}

}  // namespace

Result<std::string> pcre2_pattern(std::string_view oniguruma) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < oniguruma.size(); ++i) {
    const char c = oniguruma[i];
    if (c == '\\' && i + 1 < oniguruma.size()) {
      const char kind = oniguruma[++i];
      if (kind == 's' || kind == 'w') {
        const std::string_view inside = kind == 's' ? kSpaceClass : kWordClass;
        out += in_class ? std::string(inside) : fmt::format("[{}]", inside);
      } else if ((kind == 'S' || kind == 'W') && !in_class) {
        out += fmt::format("[^{}]", kind == 'S' ? kSpaceClass : kWordClass);
      } else {
        out += c;
        out += kind;
      }
      continue;
    }
    if (in_class && c == '&' && i + 1 < oniguruma.size() && oniguruma[i + 1] == '&') {
      return fail(ErrorKind::kUnsupported,
                  "the regex \"{}\" intersects classes with &&, which is not supported", oniguruma);
    }
    if (in_class && c == '[' && (i + 1 == oniguruma.size() || oniguruma[i + 1] != ':')) {
      return fail(ErrorKind::kUnsupported,
                  "the regex \"{}\" has a class inside a class, which is not supported", oniguruma);
    }
    if (!in_class && c == '[') {
      in_class = true;
      out += c;
      if (i + 1 < oniguruma.size() && oniguruma[i + 1] == '^') out += oniguruma[++i];
      if (i + 1 < oniguruma.size() && oniguruma[i + 1] == ']') out += oniguruma[++i];
      continue;
    }
    if (in_class && c == '[') {  // [:name:]
      const size_t close = oniguruma.find(":]", i + 2);
      if (close != std::string_view::npos) {
        out += oniguruma.substr(i, close + 2 - i);
        i = close + 1;
        continue;
      }
    }
    if (in_class && c == ']') in_class = false;
    out += c;
  }
  return out;
}

struct RegexScratch::Parts {
  MatchData data{pcre2_match_data_create(1, nullptr)};
  MatchContext context{pcre2_match_context_create(nullptr)};
};

RegexScratch::RegexScratch() : parts_(std::make_unique<Parts>()) {
  if (!parts_->data || !parts_->context) throw std::bad_alloc();
}
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch& RegexScratch::operator=(RegexScratch&&) noexcept = default;

struct Regex::Code {
  std::string pattern;
  pcre2_code* code = nullptr;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Result<Regex> Regex::compile(std::string_view oniguruma) {
  PENSTOCK_ASSIGN(const std::string pattern, pcre2_pattern(oniguruma));
  int error = 0;
  PCRE2_SIZE at = 0;
  auto code = std::make_shared<Code>();
  code->pattern = oniguruma;
  // PCRE2_MULTILINE: in Ruby's syntax ^ and $ stop at every line.
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &error, &at, nullptr);
  if (code->code == nullptr) {
    return fail(ErrorKind::kInvalidData, "the regex \"{}\" does not compile: {}", oniguruma,
                pcre2_message(error));
  }
  // Where the machine or the pattern refuses this, pcre2_match interprets: slower, the same
  // matches.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

Result<void> Regex::find_all(std::string_view text, RegexScratch& scratch,
                             std::vector<TextSpan>& matches) const {
  pcre2_match_data* const data = scratch.parts_->data.get();
  pcre2_match_context* const context = scratch.parts_->context.get();
  pcre2_set_match_limit(context, step_limit(text.size()));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto match_at = [&](size_t at, uint32_t options) {
    return pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | options, data,
                       context);
  };

  size_t at = 0;
  size_t last_end = SIZE_MAX;  // of the match before
  while (at <= text.size()) {
    int found = match_at(at, 0);
    // Compiled code has a small stack; the interpreter takes more from the heap, within its own
    // limit.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match_at(at, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found < 0) {
      return fail(ErrorKind::kInvalidData, "the regex \"{}\" gave up on a text of {} bytes: {}",
                  code_->pattern, text.size(), pcre2_message(found));
    }
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data);
    const size_t begin = span[0];
    const size_t end = span[1];
    if (begin > end) {  // \K inside a lookahead can do this
      return fail(ErrorKind::kInvalidData, "the regex \"{}\" matches backwards", code_->pattern);
    }
    if (begin < end || begin != last_end) {
      matches.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
      last_end = end;
    }
    at = end;
    if (begin == end) {
      if (end == text.size()) return {};
      at += utf8_front(text.substr(end)).length;
    }
  }
  return {};
}

}  // namespace penstock
