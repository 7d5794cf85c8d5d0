// The body of POST /v1/chat/completions, checked field by field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/conversation.h"
#include "engine/request.h"

namespace penstock {

struct ChatRequest {
  std::string model = {};             // empty: whichever is served
  Conversation conversation = {};     // normalized
  GenerationRequest generation = {};  // without its prompt; the seed is `seed`'s
  std::optional<uint64_t> seed = {};  // absent: the server draws one
  bool stream = false;
  bool include_usage = false;
};

// Unknown fields are ignored; null means absent. An error names the field in its message and in
// Error::param: kInvalidArgument for a wrong type or value, kUnsupported for what exists in
// OpenAI's API and is not served here, for it must not be ignored in silence; kInvalidData where
// `body` is no JSON.
Result<ChatRequest> parse_chat_request(std::string_view body);

}  // namespace penstock
