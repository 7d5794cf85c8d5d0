// What a request may ask of the sampler, and the ranges of it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"

namespace penstock {

// The defaults change nothing: they sample from softmax(logits).
struct SamplingOptions {
  double temperature = 1.0;  // [0, 2]; below kGreedyTemperature: the most likely token
  int64_t top_k = 0;         // the k most likely tokens; 0: all
  double top_p = 1.0;        // [0, 1]; the fewest most likely tokens that hold this probability
  double min_p = 0.0;        // [0, 1]; tokens at least this likely, relative to the most likely one
  // [0, 1]; the fewest tokens that hold this probability, those first whose surprise is nearest to
  // the expected one.
  double typical_p = 1.0;
  uint64_t seed = 0;
  double repetition_penalty = 1.0;  // [0.01, 10]; over prompt and answer
  double presence_penalty = 0.0;    // [-2, 2]; over the answer
  double frequency_penalty = 0.0;   // [-2, 2]; over the answer
  // The penalties look at this many last tokens of prompt and answer together; 0: at all.
  int64_t penalty_window = 0;
  std::map<int32_t, double> logit_bias = {};  // [-100, 100]; added to the logit of the token id
  std::vector<int32_t> banned_ids = {};       // never chosen
  // The answer begins with these, whatever the other options would choose.
  std::vector<int32_t> forced_ids = {};
  int64_t min_tokens = 0;  // no id that ends the answer is chosen before it has so many
  // [0, 20]: each token comes with its log probability and those of so many most likely tokens.
  std::optional<int> n_top_logprobs = {};
};

// At lower temperatures even a lead of 1e-3 in the logits, our own rounding, decides for certain.
inline constexpr double kGreedyTemperature = 1e-5;

// Refuses what is outside the ranges above, and token ids outside [0, vocab_size);
// Error::param names the option as the OpenAI API or vLLM's calls it.
Result<void> validate(const SamplingOptions& options,
                      int64_t vocab_size = std::numeric_limits<int32_t>::max());

}  // namespace penstock
