// What the events of a streamed answer mean: OpenAI's chat and completions routes, as many servers
// speak them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/client/call.h"
#include "cli/client/sse.h"

namespace penstock {

struct TokenUsage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
};

// One event's news. Texts are empty where the event has none.
struct StreamDelta {
  std::string text = {};
  std::string reasoning = {};
  bool has_tool_call = false;

  bool has_output() const { return !text.empty() || !reasoning.empty() || has_tool_call; }
};

// Feeds on the body of one streamed answer. What it does not know it passes over: servers add
// fields. Passed to the client as a sink, it stops the reading at the first error.
class CompletionStream {
 public:
  using OnDelta = std::function<void(const StreamDelta&)>;

  explicit CompletionStream(OnDelta on_delta) : on_delta_(std::move(on_delta)) {}

  // False: there is nothing more to read, because of an error.
  bool feed(std::string_view bytes);

  // Once the body has ended: what was wrong with the answer, if anything was. An answer that ends
  // with neither a finish_reason nor [DONE] was cut off.
  std::optional<CallFailure> failure(std::string_view server) const;

  const std::string& finish_reason() const { return finish_reason_; }  // empty: none came
  const std::optional<TokenUsage>& usage() const { return usage_; }

 private:
  bool read_event(std::string_view data);

  OnDelta on_delta_;
  SseReader reader_ = SseReader();
  std::string finish_reason_ = {};
  std::optional<TokenUsage> usage_ = {};
  bool any_event_ = false;
  bool done_ = false;
  std::string error_ = {};       // a sentence about the server's last event
  bool is_servers_own_ = false;  // the error is the server's word, not ours
};

}  // namespace penstock
