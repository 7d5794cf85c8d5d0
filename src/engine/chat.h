// From a conversation to the model's prompt: messages as clients send them, the chat template,
// token ids. Text inside a message never becomes a control token.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/text_setup.h"

namespace penstock {

struct Conversation {
  OrderedJson messages = OrderedJson::array();  // OpenAI's shape
  OrderedJson tools = OrderedJson::array();     // empty: none
};

// Refuses what is no conversation, naming the field in Error::param ("messages[1].content"), and
// brings the rest into the shape that chat templates expect:
//   content         a string; text parts are joined in order; null or absent is ""
//   tool_calls      gone when empty or null; arguments as an object where they are one
// Roles: system, developer, user, assistant, tool. System messages stay where they are.
Result<void> normalize(Conversation& conversation);

// Immutable, thread-safe.
class ChatFormatter {
 public:
  explicit ChatFormatter(TextSetup text) : text_(std::move(text)) {}

  const TextSetup& text() const { return text_; }

  // The prompt's ids, ready for the assistant's answer. `conversation` must be normalized. Errors:
  // kUnsupported without a chat template; what the template raises is kInvalidArgument.
  Result<std::vector<int32_t>> format(const Conversation& conversation,
                                      std::chrono::system_clock::time_point now) const;

 private:
  TextSetup text_;
};

}  // namespace penstock
