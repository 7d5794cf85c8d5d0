// From a request's events to what its reader sees: text in whole characters, cut before a stop
// string, then the reason it ended and what it cost. Runs in the reader's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"

namespace penstock {

class Tokenizer;

enum class FinishReason : uint8_t { kStop, kLength, kAborted };
std::string_view to_string(FinishReason reason);  // "stop", "length", "aborted"

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;  // generated, whether or not they became text

  bool operator==(const Usage&) const = default;
};

struct OutputEnd {
  FinishReason reason = FinishReason::kStop;
  Usage usage = {};
};

struct OutputUpdate {
  std::string text = {};  // may be shown now; may be empty
  std::optional<Result<OutputEnd>> end = {};
};

// Thread-compatible. Any split of the same tokens over calls gives the same text.
class OutputStream {
 public:
  OutputStream(std::shared_ptr<const Tokenizer> tokenizer, const GenerationRequest& request);
  OutputStream(OutputStream&&) noexcept;
  ~OutputStream();

  // Takes one event. Once an update has an end (the engine's, or a stop string's: then the caller
  // aborts the engine's request) there is nothing more to push.
  OutputUpdate push(const Event& event);

 private:
  struct Text;

  std::unique_ptr<Text> text_;
  Usage usage_;
};

}  // namespace penstock
