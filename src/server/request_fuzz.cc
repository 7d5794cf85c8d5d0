// Any bytes are a request, of chat or plain completions, that keeps its promises, or an error that
// says something.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engine/sampling/sampling_options.h"
#include "server/chat_request.h"
#include "server/completion_request.h"
#include "server/error_response.h"

using namespace penstock;

namespace {

void check_error(const Error& error) {
  PENSTOCK_CHECK(!error.message.empty(), "an error without words");
  PENSTOCK_CHECK(http_status(error.kind) == 400, "not the client's fault");
  PENSTOCK_CHECK(!error_body(error).empty(), "no error body");
}

void check_fields(const GenerationFields& fields) {
  PENSTOCK_CHECK(validate(fields.generation.sampling).has_value(), "sampling out of range");
  PENSTOCK_CHECK(fields.generation.max_tokens >= 1, "no tokens");
  PENSTOCK_CHECK(fields.n >= 1 && fields.n <= kMaxChoices, "choices out of range");
}

void try_chat(std::string_view body) {
  const auto request = parse_chat_request(body);
  if (!request) return check_error(request.error());
  check_fields(*request);
  PENSTOCK_CHECK(!request->conversation.messages.empty(), "no messages");
  for (const auto& message : request->conversation.messages) {
    PENSTOCK_CHECK(message["role"].is_string() && message["content"].is_string(), "not normalized");
  }
}

void try_completion(std::string_view body) {
  const auto request = parse_completion_request(body);
  if (!request) return check_error(request.error());
  check_fields(*request);
  PENSTOCK_CHECK(!request->prompts.empty(), "no prompts");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  try_chat(body);
  try_completion(body);
  return 0;
}
