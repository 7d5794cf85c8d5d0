// From tokens back to text, whole or as a stream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_fields.h"

namespace penstock {

// What the tokens of one tokenizer mean as text, in this order:
//   each token by itself     `edits`
//   tokens that are bytes    byte level: every token, in GPT-2's alphabet; byte fallback: those
//   written <0xE2> tokens put together      with `separator` between them the text as a whole at
//   most `strip_leading` times `strip_text` taken from its front
struct DecodeRules {
  struct Replace {
    std::string from;
    std::string to;
  };
  struct Strip {  // at most so many of the character from the token's front and back
    std::string character;
    size_t front = 0;
    size_t back = 0;
  };
  struct Metaspace {  // the mark becomes a space, and in the first token nothing if `drop_first`
    std::string mark;
    bool drop_first = true;
  };
  using Edit = std::variant<Replace, Strip, Metaspace>;

  std::vector<Edit> edits;
  bool byte_level = false;
  bool byte_fallback = false;
  std::string separator;
  std::string strip_text;
  size_t strip_leading = 0;

  // `value` is the "decoder" of a tokenizer.json, nullptr for none (then tokens are words between
  // spaces). Steps that are not supported, or not in this order, are refused by name.
  static Result<DecodeRules> from_json(const nlohmann::json* value);

  // What `token` stands for behind others: part of a character, it may be.
  std::string bytes_of(std::string_view token) const;
};

// Puts tokens together. One stream; not thread-safe.
//
// Bytes that are not UTF-8 become U+FFFD: at byte level one for each maximal subpart, as
// everywhere; with byte fallback one for each byte of the whole run of byte tokens, as `tokenizers`
// has it. A run's beginning may be characters that a stream has shown before the run turns out bad:
// `Show::kEarly` leaves those and replaces the rest of the run, `kSettled` waits for the end of
// each run and so gives what `tokenizers` gives.
class TextAssembler {
 public:
  enum class Show { kEarly, kSettled };

  TextAssembler(const DecodeRules& rules, Show show) : rules_(&rules), show_(show) {}

  // Appends to `out` what `token` makes known of the text.
  void push(std::string_view token, std::string& out);
  // Appends the rest; incomplete characters become U+FFFD.
  void finish(std::string& out);

 private:
  void push_bytes(std::string_view bytes, std::string& out);
  void push_run_byte(char byte, std::string& out);
  void end_run(std::string& out);
  void emit(std::string_view text, std::string& out);

  const DecodeRules* rules_;
  Show show_;
  bool is_first_ = true;
  size_t stripped_ = 0;         // how often strip_text was taken; SIZE_MAX when text has begun
  std::string pending_;         // bytes of a character, or of a run, not yet shown
  bool run_is_broken_ = false;  // no character can come from this run of byte tokens any more
};

}  // namespace penstock
