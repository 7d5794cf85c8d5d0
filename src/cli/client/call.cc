#include "cli/client/call.h"

#include <algorithm>

#include "base/json.h"

namespace penstock {
namespace {

constexpr size_t kMaxMessageBytes = 1000;

// A server's words go to a terminal, where an escape sequence would be obeyed.
std::string one_line(std::string text) {
  if (text.size() > kMaxMessageBytes) {
    text.resize(kMaxMessageBytes);
    text += "...";
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) c = ' ';
  }
  return text;
}

std::string text_at(const Json& object, std::string_view key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string CallFailure::label() const {
  switch (cause) {
    case Cause::kConnect:
      return "no connection";
    case Cause::kTimeout:
      return "timeout";
    case Cause::kCut:
      return "cut off";
    case Cause::kNotHttp:
      return "not understood";
    case Cause::kRefused:
      return fmt::format("HTTP {}", status);
    case Cause::kInStream:
      return "error in the stream";
    case Cause::kStopped:
      return "stopped";
  }
  return {};
}

Error CallFailure::error() const {
  const bool stopped = cause == Cause::kStopped;
  return {.kind = stopped ? ErrorKind::kCancelled : ErrorKind::kIo, .message = message};
}

std::string error_message(std::string_view body) {
  const Result<Json> parsed = parse_json(body);
  if (!parsed || !parsed->is_object()) return {};
  const auto error = parsed->find("error");
  if (error != parsed->end()) {
    const std::string inner = text_at(*error, "message");
    return one_line(inner.empty() ? text_at(*parsed, "error") : inner);
  }
  const std::string message = text_at(*parsed, "message");
  return one_line(message.empty() ? text_at(*parsed, "detail") : message);
}

}  // namespace penstock
