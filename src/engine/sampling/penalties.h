// Penalties on tokens that have been there before.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "engine/sampling/sampling_options.h"

namespace penstock {

// A sequence's tokens: [0, n_prompt) the prompt, [n_prompt, size) the answer so far.
struct TokenHistory {
  std::span<const int32_t> tokens = {};
  size_t n_prompt = 0;

  size_t n_answer() const { return tokens.size() - n_prompt; }
};

// The penalties of one request, with what it remembers of the history. Of the last
// `penalty_window` tokens, in this order:
//   repetition   z = z > 0 ? z / r : z * r     for tokens of the prompt and the answer
//   presence     z -= p                        for tokens of the answer
//   frequency    z -= f * (times in the answer)
// The repetition penalty is Keskar et al., arXiv:1909.05858; presence and frequency are OpenAI's.
class Penalties {
 public:
  explicit Penalties(const SamplingOptions& options);

  bool any() const { return repetition_ != 1.0 || presence_ != 0.0 || frequency_ != 0.0; }
  // `history` must extend the one of the call before.
  void apply(TokenHistory history, std::span<float> logits);

 private:
  // How often a token is within the window.
  struct Times {
    int64_t in_prompt = 0;
    int64_t in_answer = 0;
  };

  void advance(TokenHistory history);
  int64_t& times_of(TokenHistory history, size_t place);

  double repetition_;
  double presence_;
  double frequency_;
  size_t window_;
  std::unordered_map<int32_t, Times> times_;
  // The history's tokens that are counted.
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace penstock
