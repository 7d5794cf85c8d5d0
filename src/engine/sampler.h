// Chooses the next token from one sequence's logits: penalties, temperature, cuts, and one draw
// from a generator that depends on nothing but the request's seed and how far it has come.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/logprobs.h"

namespace penstock {

// The defaults change nothing: they sample from softmax(logits).
struct SamplingOptions {
  double temperature = 1.0;  // [0, 2]; below kGreedyTemperature: the most likely token
  int64_t top_k = 0;         // the k most likely tokens; 0: all
  double top_p = 1.0;        // [0, 1]; the fewest most likely tokens that hold this probability
  double min_p = 0.0;        // [0, 1]; tokens at least this likely, relative to the most likely one
  uint64_t seed = 0;
  double repetition_penalty = 1.0;  // [0.01, 10]; over prompt and answer
  double presence_penalty = 0.0;    // [-2, 2]; over the answer
  double frequency_penalty = 0.0;   // [-2, 2]; over the answer
  // [0, 20]: each token comes with its log probability and those of so many most likely tokens.
  std::optional<int> n_top_logprobs = {};
};

// At lower temperatures even a lead of 1e-3 in the logits, our own rounding, decides for certain.
inline constexpr double kGreedyTemperature = 1e-5;

// Refuses what is outside the ranges above; Error::param names the option.
Result<void> validate(const SamplingOptions& options);

// A sequence's tokens: [0, n_prompt) the prompt, [n_prompt, size) the answer so far.
struct TokenHistory {
  std::span<const int32_t> tokens = {};
  size_t n_prompt = 0;
};

// One request's sampler. Thread-compatible.
//
// Order of operations, each on what the one before left:
//   repetition   z = z > 0 ? z / r : z * r     for tokens of the prompt and the answer
//   presence     z -= p                        for tokens of the answer
//   frequency    z -= f * (times in the answer)
//   temperature  z / T, softmax
//   top_k, top_p, min_p                        probabilities made to sum to 1 before top_p
//   a draw from what is left
// The repetition penalty is Keskar et al., arXiv:1909.05858; presence and frequency are OpenAI's.
// Among equals the lower id is the more likely one.
//
// Log probabilities are log softmax of the model's own logits, before any of these operations, as
// in vLLM's default: they say what the model thinks, and stay finite where an option leaves one
// token only.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options) {}

  // `logits` is used as scratch space. `history` must extend the one of the call before. NaN, +inf
  // or no finite value among the logits is a kInternal error that names the token.
  Result<SampledToken> sample(std::span<float> logits, TokenHistory history);

 private:
  struct Candidate {
    double weight;  // exp((z - z_max) / T), above 0
    int32_t id;
  };

  bool has_penalties() const;
  Result<int32_t> choose(std::span<float> logits, TokenHistory history);
  void count(TokenHistory history);
  void apply_penalties(std::span<float> logits) const;
  void weigh(std::span<const float> logits, float largest);
  void cut();
  size_t count_top_p();
  // Puts the n best candidates first, in order.
  void order_best(size_t n);
  // position: [0, 1), a place among all weights laid end to end.
  int32_t draw(double position) const;

  SamplingOptions options_;
  std::unordered_map<int32_t, int64_t> answer_counts_;  // 0: only in the prompt
  size_t n_counted_ = 0;                                // of the history's tokens
  std::vector<Candidate> candidates_;                   // scratch space
  std::vector<float> model_logits_;  // scratch space: with log probabilities and penalties both
};

}  // namespace penstock
