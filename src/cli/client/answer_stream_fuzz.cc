// Any bytes are an answer or say what is wrong with them, and the same in one piece as byte by
// byte.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "cli/client/completion_stream.h"

namespace {

// Everything a stream says, as one text.
std::string read(std::string_view bytes, size_t piece) {
  using namespace penstock;
  std::string told;
  CompletionStream stream([&](const StreamDelta& delta) {
    PENSTOCK_CHECK(delta.has_output(), "news of nothing");
    told += fmt::format("{}|{}|{}\n", delta.text, delta.reasoning, delta.has_tool_call);
  });
  bool more = true;
  for (size_t at = 0; more && at < bytes.size(); at += piece) {
    more = stream.feed(bytes.substr(at, piece));
  }
  const auto failure = stream.failure("server");
  PENSTOCK_CHECK(more || failure, "stopped for no reason");
  if (stream.usage()) told += fmt::format("{}", stream.usage()->completion_tokens);
  return told + stream.finish_reason() + (failure ? failure->message : "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  PENSTOCK_CHECK(read(bytes, size + 1) == read(bytes, 1), "how the bytes are cut matters");
  return 0;
}
