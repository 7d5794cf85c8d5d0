// What a load is made of: prompts of ordinary words of a wanted length, or the turns of a file of
// conversations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/load/lengths.h"
#include "cli/load/randomness.h"

namespace penstock {

struct LoadRequest {
  std::string prompt = {};
  int64_t max_tokens = 1;
};

// How the server counts: a prompt of n words has about overhead + n * per_word tokens.
struct PromptSizing {
  double overhead = 0;  // the chat template's
  double per_word = 1;

  int64_t words_for(int64_t n_tokens) const;  // at least 1
};

// `n` ordinary words; the same generator gives the same ones.
std::string random_words(Random& random, int64_t n);

// Request i is a function of seed, row and i alone. Rows are runs against one server: what one sent
// is not sent again by the next, so that none finds the other's prefixes.
struct WordPrompts {
  PromptSizing sizing = {};
  Lengths prompt_tokens = {};
  Lengths output_tokens = {};
  double shared_part = 0;  // [0, 1]: of each prompt, from its beginning, the same in all of the row
  uint64_t seed = 0;
  uint64_t row = 0;

  LoadRequest request(int64_t i) const;
};

// The first question and answer of each conversation in a ShareGPT file: [{"conversations":
// [{"from": "human", "value": ...}, {"from": "gpt", "value": ...}, ...]}, ...]; "user" and
// "assistant" mean the same. The answer's length becomes max_tokens, at 4 characters a token.
// Conversations that do not begin so are left out; a file without any is an error. `source` is
// named in errors.
Result<std::vector<LoadRequest>> parse_dataset(std::string_view text, std::string_view source);

// In an order that the seed decides.
void shuffle(std::vector<LoadRequest>& requests, uint64_t seed);

}  // namespace penstock
