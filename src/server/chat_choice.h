// One choice of a chat completion: from what the engine's output says to what the client is told.
#pragma once

#include <string_view>
#include <vector>

#include "engine/answer/answer_parser.h"
#include "engine/output_stream.h"

namespace penstock {

struct ChoicePart {
  AnswerDelta delta = {};
  std::vector<TokenEvent> tokens = {};  // with log probabilities
  std::string_view finish_reason = {};  // empty: the choice goes on

  bool empty() const { return delta.empty() && tokens.empty() && finish_reason.empty(); }
};

// Thread-compatible.
class ChatChoice {
 public:
  explicit ChatChoice(const AnswerParserOptions& options) : parser_(options) {}

  // After a part with a finish reason there is nothing more to push.
  ChoicePart push(const OutputUpdate& update);

  // The choice has ended before its text: with the one call that was allowed.
  bool is_satisfied() const { return parser_.is_satisfied(); }

 private:
  std::string_view finish_reason(FinishReason reason) const;

  AnswerParser parser_;
};

}  // namespace penstock
