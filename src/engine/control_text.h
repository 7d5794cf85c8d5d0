// Keeps the texts of control tokens, where they stand in what people wrote, from becoming the
// tokens.
//
// A chat template mixes its own control tokens with strings from the request, and one encoding of
// the whole must tell them apart. So each string from the request gets a barrier (a character that
// occurs nowhere else; the tokenizer takes it out again, EncodeOptions::barrier) inside every
// control text it spells, and inside whatever a neighbour could complete to one. A template that
// looks for such a text in a message no longer finds it, which is what is wanted: a message cannot
// fake a turn, a tool's answer or the end of a thought. Should a template cut or change a guarded
// string, then the worst is odd text; no control token can come from it but through a template that
// takes out single characters from within.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace penstock {

class Tokenizer;

// Whose words they are decides what they may spell.
enum class Author {
  kClient,
  // May spell the added tokens that are not special (<think>, <tool_call>): they are the model's
  // way of writing, and come back in its earlier answers.
  kAssistant,
};

// Immutable, thread-safe.
class ControlText {
 public:
  // The control tokens: the special ones, and those of the other added tokens that the template
  // itself names, or names the other half of (<think>, </think>). Others, runs of spaces for
  // example, are ordinary text in tokens of their own.
  ControlText(const Tokenizer& tokenizer, std::string_view template_source);

  std::string guard(std::string_view text, std::string_view barrier, Author author) const;
  // Every string in `value`, keys included.
  OrderedJson guard_all(const OrderedJson& value, std::string_view barrier, Author author) const;

 private:
  // Texts in groups by their first byte.
  using ByFirstByte = std::array<std::vector<std::string>, 256>;
  struct Texts {
    ByFirstByte whole;
    ByFirstByte tails;  // proper ends of whole ones
    void add(std::string_view text);
    void sort();
  };

  Texts special_;  // for the assistant's words
  Texts all_;      // for everybody else's
};

// A character that `text` does not have, out of the 32 that Unicode keeps for such use (U+FDD0 to
// U+FDEF); nothing if it has them all.
std::optional<std::string> find_barrier(std::string_view text);

}  // namespace penstock
