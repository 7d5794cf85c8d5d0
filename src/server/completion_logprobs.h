// The `logprobs` of /v1/completions: parallel lists of tokens, their log probabilities, the most
// likely ones in their place, and where in the text each token begins.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/json.h"
#include "engine/request.h"
#include "text/detokenizer.h"

namespace penstock {

class Tokenizer;

// A list of each kind. `text_offset` counts characters (code points), from the beginning of the
// choice's text; the parts of a character that is several tokens all have its place.
struct LogprobLists {
  OrderedJson tokens = OrderedJson::array();
  OrderedJson logprobs = OrderedJson::array();
  OrderedJson top = OrderedJson::array();
  OrderedJson offsets = OrderedJson::array();

  OrderedJson object() const;
};

// Of one choice, in order. A token is its text; one that is no whole characters is
// "bytes:\xf0\x9f", as OpenAI's API writes them.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(const Tokenizer& tokenizer);

  void append(std::span<const TokenEvent> tokens, LogprobLists& lists);

 private:
  const Tokenizer& tokenizer_;
  std::unique_ptr<Detokenizer> text_;
  size_t n_characters_ = 0;
};

}  // namespace penstock
