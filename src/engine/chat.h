// From a conversation to the model's prompt: the chat template, then token ids. What a message says
// never becomes a control token.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/answer/answer_format.h"
#include "engine/control_text.h"
#include "engine/conversation.h"
#include "engine/text_setup.h"

namespace penstock {

// The time on this machine's wall clock, as templates print it.
std::chrono::local_seconds local_now();

// Immutable, thread-safe.
class ChatFormatter {
 public:
  // With the answer format that the checkpoint's own texts show.
  explicit ChatFormatter(TextSetup text);
  ChatFormatter(TextSetup text, AnswerFormat answer_format);

  const Tokenizer& tokenizer() const { return *text_.tokenizer; }
  // How the model writes calls and thoughts.
  const AnswerFormat& answer_format() const { return answer_format_; }

  // The prompt's ids, up to where the assistant's answer begins. `conversation` must be normalized.
  // Errors: kUnsupported without a chat template; kInvalidArgument with what the template raises,
  // or when it takes more work than templates may; kInvalidData where it fails.
  Result<std::vector<int32_t>> format(const Conversation& conversation,
                                      std::chrono::local_seconds now) const;

 private:
  OrderedJson template_inputs(const Conversation& conversation, std::string_view barrier) const;

  TextSetup text_;
  ControlText control_text_;
  AnswerFormat answer_format_;
};

}  // namespace penstock
