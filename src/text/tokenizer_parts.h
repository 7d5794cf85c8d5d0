// What a tokenizer is made of, whichever file it comes from. Private to the tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/gguf_vocabulary.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_added.h"

namespace penstock {

// Ids and texts of tokens.
class TokenTable {
 public:
  // No id may be above this: tables are as long as the highest id, and no vocabulary is near it.
  static constexpr int64_t kMaxId = (1 << 20) - 1;

  // kInvalidData where `id` is out of range or has another text, or `text` another id. `field` says
  // where both stand.
  Result<void> add(std::string_view text, int64_t id, std::string_view field);

  size_t size() const { return texts_.size(); }  // one more than the highest id
  bool has(int32_t id) const;
  std::string_view text(int32_t id) const;  // empty where there is no such token
  std::optional<int32_t> find(std::string_view text) const;

 private:
  std::vector<std::optional<std::string>> texts_;                            // [id]
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> ids_;  // by text
};

struct TokenizerParts {
  TokenTable tokens;
  std::vector<bool> special;          // [tokens.size()]
  AddedTokenFinder added;             // in the text as it came
  AddedTokenFinder added_normalized;  // in normalised text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  std::vector<int32_t> prefix, suffix;  // around a text with special tokens
  DecodeRules decode_rules;
  std::optional<int32_t> bos_id, eos_id, eot_id, pad_id, unk_id;

  // Sets `special` and both finders. Normalised tokens are looked for in their own normal form.
  Result<void> set_added(std::vector<AddedToken> added_tokens);
};

// "left right" at its one space; nothing where there is none, or more.
std::optional<std::pair<std::string_view, std::string_view>> split_merge(std::string_view both);

// Which ids are special, [n_ids].
std::vector<bool> special_ids(const std::vector<AddedToken>& added, size_t n_ids);

// The three below leave out special tokens: those come from the text only as added tokens, never by
// merging, and so not at all where special text is not parsed.

// Adds the merge of rank `index`. kInvalidData, naming `field`[`index`], where one of the three
// tokens is missing.
Result<void> add_merge(const TokenTable& tokens, const std::vector<bool>& special,
                       std::string_view left, std::string_view right, size_t index,
                       std::string_view field, MergeTable& merges);
// Finds the tokens of single characters, or of single bytes, among `tokens`.
void set_symbols(const TokenTable& tokens, const std::vector<bool>& special, BpeModel& bpe);
// Lets every token stand for a piece that is exactly its text.
void set_whole_pieces(const TokenTable& tokens, const std::vector<bool>& special, BpeModel& bpe);

Result<TokenizerParts> parts_from_json(std::string_view tokenizer_json);
Result<TokenizerParts> parts_from_vocabulary(const GgufVocabulary& vocabulary);

}  // namespace penstock
