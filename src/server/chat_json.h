// The objects of OpenAI's chat API that a model's answer becomes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/answer/answer_delta.h"
#include "engine/request.h"

namespace penstock {

class Tokenizer;

// A chunk's `delta`: of tool calls id, type and name come once.
OrderedJson delta_object(const AnswerDelta& delta);

// A whole answer's `message`, put together from the same deltas as a stream's.
class ChatMessage {
 public:
  void add(const AnswerDelta& delta);
  // `content` is null where there are only calls; `reasoning_content` and `tool_calls` are absent
  // where there are none.
  OrderedJson object() const;

 private:
  AnswerDelta whole_;
};

// The tokens with their log probabilities, as items of a choice's logprobs.content. `bytes` is what
// the token stands for; `token` is the same as text, with U+FFFD for parts of characters.
OrderedJson logprob_items(std::span<const TokenEvent> tokens, const Tokenizer& tokenizer);

}  // namespace penstock
