// Any bytes give a tokenizer or an error, and a tokenizer from them encodes, decodes and streams
// without a crash. The bytes are also a text for a tokenizer that is known to be good, which must
// give them back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace {

using penstock::Detokenizer;
using penstock::Tokenizer;

constexpr std::string_view kTexts[] = {
    "", "a b  c\n\nHello, world's 1234 <s><|im_end|>",
    "caf\u00E9 e\u0301 \u2581\u4E16\u754C \U0001F600\u200D\u00A0"};

void use(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse_special : {true, false}) {
    const auto ids = tokenizer.encode(text, {.parse_special = parse_special});
    if (!ids) continue;
    Detokenizer detokenizer(tokenizer, /*skip_special=*/false);
    std::string shown;
    for (const int32_t id : *ids) {
      PENSTOCK_CHECK(tokenizer.has_token(id), "encoding gave an id that names no token");
      shown += detokenizer.push(id);
      PENSTOCK_CHECK(!penstock::find_invalid_utf8(shown), "half a character was shown");
    }
    shown += detokenizer.finish();
    tokenizer.decode(*ids, /*skip_special=*/true);
  }
}

// One token for each byte and a few merges.
Tokenizer bytes_tokenizer() {
  penstock::GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "gpt-4o";  // no normaliser
  for (unsigned byte = 0; byte < 256; ++byte) {
    penstock::append_character(vocabulary.tokens.emplace_back(),
                               penstock::character_of_byte(static_cast<uint8_t>(byte)));
  }
  for (const auto* merge : {"a a", "aa aa", "\u0120 a", "\u00E4 \u00B8"}) {
    vocabulary.merges.emplace_back(merge);
    std::string merged = merge;
    merged.erase(merged.find(' '), 1);
    vocabulary.tokens.push_back(merged);
  }
  return Tokenizer::from_vocabulary(vocabulary).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto tokenizer = Tokenizer::from_json(bytes)) {
    for (const std::string_view text : kTexts) use(*tokenizer, text);
  }
  static const Tokenizer good = bytes_tokenizer();
  const auto ids = good.encode(bytes);
  PENSTOCK_CHECK(ids.has_value() == !penstock::find_invalid_utf8(bytes),
                 "UTF-8 was refused, or other bytes were not");
  if (ids)
    PENSTOCK_CHECK(good.decode(*ids, /*skip_special=*/false) == bytes,
                   "the text did not come back");
  return 0;
}
