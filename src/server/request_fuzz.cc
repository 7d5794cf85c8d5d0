// Any bytes are a chat request that keeps its promises, or an error that says something.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engine/sampling/sampling_options.h"
#include "server/chat_request.h"
#include "server/error_response.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto request =
      parse_chat_request(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!request) {
    PENSTOCK_CHECK(!request.error().message.empty(), "an error without words");
    PENSTOCK_CHECK(http_status(request.error().kind) == 400, "not the client's fault");
    PENSTOCK_CHECK(!error_body(request.error()).empty(), "no error body");
    return 0;
  }
  PENSTOCK_CHECK(validate(request->generation.sampling).has_value(), "sampling out of range");
  PENSTOCK_CHECK(request->generation.max_tokens >= 1, "no tokens");
  PENSTOCK_CHECK(!request->conversation.messages.empty(), "no messages");
  for (const auto& message : request->conversation.messages) {
    PENSTOCK_CHECK(message["role"].is_string() && message["content"].is_string(), "not normalized");
  }
  return 0;
}
