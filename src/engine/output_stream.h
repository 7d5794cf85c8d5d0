// From a request's events to what its reader sees: text in whole characters, cut before a stop
// string, the tokens it came from, then the reason it ended and what it cost. Runs in the reader's
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace penstock {

class Tokenizer;

enum class FinishReason : uint8_t { kStop, kLength, kAborted };
std::string_view to_string(FinishReason reason);  // "stop", "length", "aborted"

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // of the prompt, not computed: the prefix cache had them
  int64_t completion_tokens = 0;  // generated, whether or not they became text

  bool operator==(const Usage&) const = default;
};

struct OutputEnd {
  FinishReason reason = FinishReason::kStop;
  Usage usage = {};
};

struct OutputUpdate {
  std::string text = {};  // may be shown now; may be empty
  // Of a request for log probabilities: those whose text has now been shown, and those without.
  std::vector<TokenEvent> tokens = {};
  std::optional<Result<OutputEnd>> end = {};
};

// Thread-compatible. Special tokens have no text, but for the request's `shown_special`.
class OutputStream {
 public:
  // kInvalidArgument for stop strings that are none.
  static Result<OutputStream> create(const Tokenizer& tokenizer, const GenerationRequest& request);
  OutputStream(OutputStream&&) noexcept;
  OutputStream& operator=(OutputStream&&) noexcept;
  ~OutputStream();

  // Takes one event. After an update with an end (the engine's, or a stop string's: then the caller
  // gives up the request's handle) there is nothing more to push.
  OutputUpdate push(const Event& event);
  // So far.
  const Usage& usage() const { return usage_; }

 private:
  struct Text;
  OutputStream(std::unique_ptr<Text> text, int64_t n_prompt);

  OutputUpdate push_token(const TokenEvent& token);
  OutputUpdate push_end(const RequestEnd& end);
  void take_shown_tokens(OutputUpdate& update);

  // A token, and where in the answer's text the text is that came with it.
  struct PendingToken {
    TokenEvent token;
    size_t text_begin = 0;  // bytes
    size_t text_end = 0;
  };

  std::unique_ptr<Text> text_;
  Usage usage_ = {};
  std::deque<PendingToken> pending_;  // with log probabilities, not shown yet
  size_t n_text_ = 0;                 // bytes, in all
  size_t n_shown_ = 0;                // of them
};

}  // namespace penstock
