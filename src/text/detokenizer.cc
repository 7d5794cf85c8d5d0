#include "text/detokenizer.h"

#include "text/tokenizer_parts.h"

namespace penstock {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer),
      skip_special_(skip_special),
      assembler_(tokenizer_.parts_->decode_rules, TextAssembler::Show::kEarly) {}

std::string Detokenizer::push(int32_t id) {
  std::string text;
  if (!tokenizer_.has_token(id) || (skip_special_ && tokenizer_.is_special(id))) return text;
  assembler_.push(tokenizer_.token_text(id), text);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  assembler_.finish(text);
  return text;
}

}  // namespace penstock
