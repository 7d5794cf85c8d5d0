// Regular expressions as tokenizer files write them (Oniguruma's Ruby syntax), run by PCRE2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

// Bytes [begin, end) of some text.
struct TextSpan {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t size() const { return end - begin; }
  std::string_view of(std::string_view text) const { return text.substr(begin, size()); }
  bool operator==(const TextSpan&) const = default;
};

// The pattern in PCRE2's dialect. The two differ in \s and \w, and in what this refuses:
// intersections and classes inside classes, which PCRE2 would read as something else without a
// word.
Result<std::string> pcre2_pattern(std::string_view oniguruma);

// What one thread needs while it matches; reusing it saves allocations.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;
  RegexScratch& operator=(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// A compiled pattern. Immutable; matching is thread-safe, with a scratch for each thread.
class Regex {
 public:
  // kInvalidData for a pattern that does not compile, kUnsupported for one that would mean
  // something else in PCRE2.
  static Result<Regex> compile(std::string_view oniguruma);

  // Appends every match in `text` (valid UTF-8), left to right and without overlap; an empty match
  // is kept unless it touches the one before. Work is bounded by a multiple of the text's length:
  // past it kInvalidData, never a hang.
  Result<void> find_all(std::string_view text, RegexScratch& scratch,
                        std::vector<TextSpan>& matches) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace penstock
