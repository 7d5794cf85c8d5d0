#include "server/completion_logprobs.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

std::string name_of(int32_t id, const Tokenizer& tokenizer) {
  std::string bytes = tokenizer.token_bytes(id);
  if (is_utf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
  return name;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace

OrderedJson LogprobLists::object() const {
  return {{"tokens", tokens},
          {"token_logprobs", logprobs},
          {"top_logprobs", top},
          {"text_offset", offsets}};
}

CompletionLogprobs::CompletionLogprobs(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      text_(std::make_unique<Detokenizer>(tokenizer, /*skip_special=*/true)) {}

void CompletionLogprobs::append(std::span<const TokenEvent> tokens, LogprobLists& lists) {
  for (const TokenEvent& token : tokens) {
    OrderedJson top = OrderedJson::object();
    for (const TokenLogprob& other : token.top) {
      top[name_of(other.id, tokenizer_)] = other.logprob;
    }
    lists.tokens.push_back(name_of(token.id, tokenizer_));
    lists.logprobs.push_back(token.logprob.value_or(kLeastLogprob));
    lists.top.push_back(std::move(top));
    lists.offsets.push_back(n_characters_);
    n_characters_ += count_characters(text_->push(token.id));
  }
}

}  // namespace penstock
