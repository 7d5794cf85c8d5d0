// Text to token ids and back, for the tokenizers of Hugging Face directories and GGUF files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/gguf_vocabulary.h"

namespace penstock {

struct TokenizerParts;
class EncodeScratchPool;

struct EncodeOptions {
  bool add_special = true;  // the tokens that the tokenizer puts around every text (BOS, mostly)
  // Whether text that spells a special token becomes it. False for what a user wrote: it can then
  // not fake a turn, and no special token but the unknown-text token can come out.
  bool parse_special = true;
  // Taken out of the text once added tokens have been found, so that no text it stands in is one: a
  // whole prompt can be encoded with only its writer's own tokens parsed. Empty: none.
  std::string_view barrier = {};
};

// A text that is one token wherever it stands.
struct AddedTokenText {
  std::string_view text = {};
  bool special = false;  // stands for no text of its own: <|im_end|>; others do: <tool_call>
};

// Immutable and thread-safe; copies share everything.
class Tokenizer {
 public:
  // Hugging Face's tokenizer.json with a BPE model: byte level, or characters with bytes as
  // fallback. Its truncation and padding are ignored. kInvalidData where the file contradicts
  // itself, kUnsupported for what would be encoded wrongly; the message names the field.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json);
  // The tokenizer inside a GGUF file; messages name its tokenizer.ggml.* key.
  static Result<Tokenizer> from_vocabulary(const GgufVocabulary& vocabulary);
  // The values of tokenizer.ggml.pre that from_vocabulary knows.
  static std::vector<std::string_view> supported_gguf_pre();

  // kInvalidArgument where `text` is not UTF-8 or longer than 1 GiB; kInvalidData where a regex of
  // the tokenizer gives up. A byte or character that the vocabulary has no token for becomes its
  // unknown-text token, or nothing if it has none.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;

  // Ids that name no token (models have more outputs than their tokenizer has tokens) add nothing;
  // see has_token(). Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  size_t vocab_size() const;  // one more than the highest id
  bool has_token(int32_t id) const;
  std::optional<int32_t> token_id(std::string_view token) const;
  // As the vocabulary writes it (a byte-level space is U+0120); empty where there is no such token.
  std::string_view token_text(int32_t id) const;
  // What it stands for inside a text, which may be part of a character; empty likewise.
  std::string token_bytes(int32_t id) const;
  bool is_special(int32_t id) const;
  // The views live as long as the tokenizer.
  std::vector<AddedTokenText> added_tokens() const;

  // Where the file says: a GGUF's keys; of a tokenizer.json only bos, when the template starts with
  // one token.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> eot_id() const;
  std::optional<int32_t> pad_id() const;
  std::optional<int32_t> unk_id() const;

 private:
  friend class Detokenizer;
  explicit Tokenizer(TokenizerParts parts);

  std::shared_ptr<const TokenizerParts> parts_;
  std::shared_ptr<EncodeScratchPool> scratches_;
};

}  // namespace penstock
