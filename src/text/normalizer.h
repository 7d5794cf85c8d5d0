// What a tokenizer does to text before splitting it: Unicode normal forms, replacements, prefixes.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/pretokenizer_regex.h"
#include "text/tokenizer_fields.h"

namespace penstock {

// Immutable and thread-safe.
class Normalizer {
 public:
  enum class Form { kNfc, kNfd, kNfkc, kNfkd };
  struct Prepend {  // in front of text that is not empty
    std::string prefix;
  };
  struct Replace {
    std::variant<std::string, Regex> pattern;
    std::string content;
  };
  struct Lowercase {};
  struct Strip {  // white space
    bool left = true;
    bool right = true;
  };
  using Step = std::variant<Form, Prepend, Replace, Lowercase, Strip>;

  Normalizer() = default;  // leaves text alone
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // `value` is the "normalizer" of a tokenizer.json, nullptr for none. A type not listed above is
  // kUnsupported, by name.
  static Result<Normalizer> from_json(const nlohmann::json* value);

  // The normal form of `text`, valid UTF-8: either `text` itself, or a view of `buffer`, which then
  // holds it.
  Result<std::string_view> apply(std::string_view text, RegexScratch& scratch,
                                 std::string& buffer) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace penstock
