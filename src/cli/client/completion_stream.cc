#include "cli/client/completion_stream.h"

#include "base/json.h"

namespace penstock {
namespace {

const Json* find(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found != object.end() ? &*found : nullptr;
}

std::string text_at(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<int64_t> count_at(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return value->get<int64_t>();
}

std::optional<TokenUsage> read_usage(const Json& event) {
  const Json* usage = find(event, "usage");
  if (usage == nullptr) return std::nullopt;
  const auto prompt = count_at(*usage, "prompt_tokens");
  const auto completion = count_at(*usage, "completion_tokens");
  if (!prompt || !completion) return std::nullopt;
  return TokenUsage{.prompt_tokens = *prompt, .completion_tokens = *completion};
}

// `choice` is of a chat ("delta") or of a completion ("text").
StreamDelta read_delta(const Json& choice) {
  StreamDelta news = {.text = text_at(choice, "text")};
  const Json* delta = find(choice, "delta");
  if (delta == nullptr) return news;
  news.text = text_at(*delta, "content");
  news.reasoning = text_at(*delta, "reasoning_content");
  const Json* calls = find(*delta, "tool_calls");
  news.has_tool_call = calls != nullptr && calls->is_array() && !calls->empty();
  return news;
}

}  // namespace

bool CompletionStream::feed(std::string_view bytes) {
  const auto state =
      reader_.feed(bytes, [this](std::string_view data) { return read_event(data); });
  if (state == SseReader::State::kTooLong) error_ = "an event is too long";
  return state == SseReader::State::kMore;
}

bool CompletionStream::read_event(std::string_view data) {
  any_event_ = true;
  if (data == "[DONE]") {
    done_ = true;
    return true;  // the body's own end is still to come, and with it the connection's next use
  }
  const Result<Json> event = parse_json(data);
  if (!event) {
    error_ = "an event is no JSON: " + event.error().message;
    return false;
  }
  if (const Json* error = find(*event, "error"); error != nullptr && !error->is_null()) {
    is_servers_own_ = true;
    error_ = error_message(data);
    if (error_.empty()) error_ = "an error without a message";
    return false;
  }
  if (auto usage = read_usage(*event)) usage_ = usage;
  const Json* choices = find(*event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return true;
  const Json& choice = choices->front();
  if (std::string reason = text_at(choice, "finish_reason"); !reason.empty()) {
    finish_reason_ = std::move(reason);
  }
  if (const StreamDelta delta = read_delta(choice); delta.has_output()) on_delta_(delta);
  return true;
}

std::optional<CallFailure> CompletionStream::failure(std::string_view server) const {
  using Cause = CallFailure::Cause;
  const auto failed = [&](Cause cause, std::string_view what) {
    return CallFailure{.cause = cause, .message = fmt::format("{}: {}", server, what)};
  };
  if (is_servers_own_) return failed(Cause::kInStream, error_);
  if (!error_.empty()) return failed(Cause::kNotHttp, error_);
  if (!any_event_) return failed(Cause::kNotHttp, "the answer is no stream of events");
  if (!done_ && finish_reason_.empty()) {
    return failed(Cause::kCut, "the stream ended in the middle of the answer");
  }
  return std::nullopt;
}

}  // namespace penstock
