// Token ids to text as they come: never half a character, and never a whole one held back.
#pragma once

#include <cstdint>
#include <string>

#include "text/decoder.h"
#include "text/tokenizer.h"

namespace penstock {

// One stream of ids. What push() and finish() return, put together, is Tokenizer::decode() of the
// ids, with one exception that no encoded text can show: see TextAssembler on runs of byte tokens
// that are not UTF-8. Not thread-safe.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special);
  Detokenizer(const Detokenizer&) = delete;  // the assembler points into tokenizer_
  Detokenizer& operator=(const Detokenizer&) = delete;

  // The text that `id` completes, often none. Ids that name no token add nothing.
  std::string push(int32_t id);
  // What is left when no more ids come: U+FFFD for an incomplete character.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  TextAssembler assembler_;
};

}  // namespace penstock
