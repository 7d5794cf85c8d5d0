// The body of POST /v1/chat/completions, checked field by field.
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/conversation.h"
#include "server/generation_fields.h"

namespace penstock {

struct ChatRequest : GenerationFields {
  Conversation conversation = {};  // normalized; with tool_choice "none" it has no tools
  bool parallel_tool_calls = true;
};

// As read_generation_fields(); kInvalidData where `body` is no JSON.
Result<ChatRequest> parse_chat_request(std::string_view body);

}  // namespace penstock
