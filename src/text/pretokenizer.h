// Cutting text into the pieces inside which tokens are merged.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/pretokenizer_regex.h"
#include "text/tokenizer_fields.h"

namespace penstock {

// The regex of GPT-2 (openai/gpt-2, src/encoder.py), which "ByteLevel" applies by itself.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Text and the pieces it is cut into. The text is the caller's, or `buffer` where a step has
// rewritten it.
struct PieceList {
  std::string_view text;
  std::vector<TextSpan> pieces;  // in order, without overlap; none is empty

  std::string buffer;
  std::vector<TextSpan> matches;  // scratch of the steps
  std::vector<TextSpan> new_pieces;
};

// Immutable and thread-safe.
class PreTokenizer {
 public:
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Split {
    std::variant<std::string, Regex> pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;  // the pattern says what is between the separators
  };
  // Space becomes `mark`; a mark is put in front as `prepend` says; with `split`, pieces begin at
  // marks.
  struct Metaspace {
    enum class Prepend { kAlways, kFirst, kNever };
    std::string mark;
    Prepend prepend = Prepend::kAlways;
    bool split = true;
  };
  struct PrefixSpace {};  // a space in front of each piece that does not start with one
  using Step = std::variant<Split, Metaspace, PrefixSpace>;

  PreTokenizer() = default;  // one piece
  explicit PreTokenizer(std::vector<Step> steps, bool byte_level)
      : steps_(std::move(steps)), byte_level_(byte_level) {}

  // `value` is the "pre_tokenizer" of a tokenizer.json, nullptr for none. What is not supported is
  // refused by name.
  static Result<PreTokenizer> from_json(const nlohmann::json* value);
  // Byte level, splitting by each pattern in turn.
  static Result<PreTokenizer> from_patterns(std::span<const std::string_view> patterns);

  // Whether pieces are bytes in GPT-2's alphabet to the model, not characters.
  bool byte_level() const { return byte_level_; }

  // Cuts `list.text` into `list.pieces`. `at_start`: the text stands at the very beginning of what
  // is encoded.
  Result<void> apply(bool at_start, RegexScratch& scratch, PieceList& list) const;

 private:
  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace penstock
