// What goes into the engine and what comes out: a request of token ids, and its events.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/prefix_keys.h"
#include "engine/sampling/logprobs.h"
#include "engine/sampling/sampling_options.h"
#include "engine/sampling/token_mask.h"

namespace penstock {

struct GenerationRequest {
  std::vector<int32_t> prompt = {};
  SamplingOptions sampling = {};
  std::shared_ptr<TokenMask> token_mask = {};  // this request's alone; absent: any token may come
  // Of the answer; clamped to what the context leaves free.
  int64_t max_tokens = std::numeric_limits<int64_t>::max();
  std::vector<std::string> stop = {};  // matched by the reader's OutputStream, not the engine
  // Special tokens that OutputStream gives their text all the same.
  std::vector<int32_t> shown_special = {};
  std::vector<int32_t> stop_ids = {};     // end the answer, as the model's own eos ids do
  bool ignore_eos = false;                // the model's eos ids are ordinary tokens
  std::vector<ContentSpan> content = {};  // what of the prompt is no text
  // Requests of one scope take each other's KV pages where their prompts begin alike.
  std::string prefix_scope = {};
  bool use_prefix_cache = true;  // false: takes none, leaves none
  // Positions of the prompt, in order, from which other requests are likely to go on: where a
  // recurrent family's state is kept.
  std::vector<int64_t> snapshot_at = {};
};

enum class EndReason : uint8_t {
  kStop,     // an eos or stop id
  kLength,   // max_tokens, or the context is full
  kAborted,  // the handle's abort
};

// The request's first step is about to run.
struct BeginEvent {
  int64_t n_prompt_cached = 0;  // tokens of the prompt that need not be computed
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

// An answer is a beginning, any number of tokens, then one end or error; an error or an abort may
// come before all that.
using Event = std::variant<BeginEvent, TokenEvent, RequestEnd, Error>;

// Where the engine puts a request's events.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // Called on the engine's thread, which waits for nobody: must return at once. False: nobody wants
  // the rest, and the engine aborts the request.
  virtual bool push(Event event) = 0;
  // What was pushed is all there will be before the model runs again. Waking a reader costs more
  // than choosing a token, so those of one step are woken together, after its last token.
  virtual void deliver() {}
};

}  // namespace penstock
