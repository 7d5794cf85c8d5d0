// What goes into the engine and what comes out: a request of token ids, and its events.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/sampler.h"

namespace penstock {

struct GenerationRequest {
  std::vector<int32_t> prompt = {};
  SamplingOptions sampling = {};
  // Of the answer; clamped to what the context leaves free.
  int64_t max_tokens = std::numeric_limits<int64_t>::max();
  std::vector<std::string> stop = {};  // matched by the reader's OutputStream, not the engine
  std::vector<int32_t> stop_ids = {};  // end the answer, as the model's own eos ids do
  bool ignore_eos = false;             // the model's eos ids are ordinary tokens
};

enum class EndReason : uint8_t {
  kStop,     // an eos or stop id
  kLength,   // max_tokens, or the context is full
  kAborted,  // the handle's abort
};

// One token of the answer. The id that ended the answer is in RequestEnd, not here.
struct TokenEvent {
  int32_t id = 0;
  // With SamplingOptions::n_top_logprobs; as in SampledToken.
  std::optional<float> logprob = {};
  std::vector<TokenLogprob> top = {};
};

struct RequestEnd {
  EndReason reason = EndReason::kStop;
  std::optional<int32_t> stop_id = {};  // with kStop
};

// An answer is any number of tokens, then one end or error.
using Event = std::variant<TokenEvent, RequestEnd, Error>;

// Where the engine puts a request's events.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // Called on the engine's thread, which waits for nobody: must return at once. False: nobody wants
  // the rest, and the engine aborts the request.
  virtual bool push(Event event) = 0;
};

}  // namespace penstock
