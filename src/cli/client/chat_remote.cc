#include "cli/client/chat_remote.h"

#include <cstdio>
#include <utility>

#include "cli/client/completion_stream.h"
#include "os/signals.h"
#include "os/terminal.h"

namespace penstock {
namespace {

// Writes text and reasoning apart.
class Screen {
 public:
  explicit Screen(bool terminal) : terminal_(terminal) {}
  ~Screen() { end_reasoning(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void show(const StreamDelta& delta) {
    if (terminal_ && !delta.reasoning.empty()) {
      if (!std::exchange(in_reasoning_, true)) fmt::print("\x1b[2m");
      fmt::print("{}", delta.reasoning);
    }
    if (!delta.text.empty()) {
      end_reasoning();
      fmt::print("{}", delta.text);
    }
    std::fflush(stdout);
  }

 private:
  void end_reasoning() {
    if (std::exchange(in_reasoning_, false)) fmt::print("\x1b[0m\n");
  }

  bool terminal_;
  bool in_reasoning_ = false;
};

}  // namespace

OrderedJson chat_body(const std::string& model, const OrderedJson& messages,
                      const AnswerOptions& answer) {
  const SamplingOptions& sampling = answer.sampling;
  const SamplingOptions off;
  OrderedJson body = {{"model", model},
                      {"messages", messages},
                      {"stream", true},
                      {"temperature", sampling.temperature},
                      {"top_p", sampling.top_p}};
  const auto add = [&](const char* field, auto value, auto value_off) {
    if (value != value_off) body[field] = value;
  };
  add("top_k", sampling.top_k, off.top_k);
  add("min_p", sampling.min_p, off.min_p);
  add("repetition_penalty", sampling.repetition_penalty, off.repetition_penalty);
  add("presence_penalty", sampling.presence_penalty, off.presence_penalty);
  add("frequency_penalty", sampling.frequency_penalty, off.frequency_penalty);
  if (answer.seed) body["seed"] = *answer.seed;
  if (answer.max_tokens) body["max_tokens"] = *answer.max_tokens;
  if (!answer.stop.empty()) body["stop"] = answer.stop;
  return body;
}

Result<std::string> show_remote_answer(BlockingClient& client, const OrderedJson& body) {
  SignalCatcher ctrl_c({SIGINT});
  std::string text;
  Screen screen(is_terminal(stdout));
  CompletionStream stream([&](const StreamDelta& delta) {
    text += delta.text;
    screen.show(delta);
  });
  const auto reply = client.call(
      {.method = "POST",
       .path = "/v1/chat/completions",
       .body = body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)},
      [&](std::string_view piece) { return stream.feed(piece); },
      [&] { return ctrl_c.take().has_value(); });
  if (!reply) {
    if (reply.error().cause == CallFailure::Cause::kStopped) return text;
    return std::unexpected(reply.error().error());
  }
  if (const auto failure = stream.failure(client.url().text)) {
    return std::unexpected(failure->error());
  }
  return text;
}

}  // namespace penstock
