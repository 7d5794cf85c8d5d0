// Chooses the next token from one sequence's logits: edits of the logits, temperature, cuts, and
// one draw from a generator that depends on nothing but the request's seed and how far it has come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cpu/isa.h"
#include "engine/sampling/logprobs.h"
#include "engine/sampling/penalties.h"
#include "engine/sampling/sampling_options.h"
#include "engine/sampling/token_mask.h"

namespace penstock {

// One request's sampler. Thread-compatible.
//
// While forced_ids last, they are the tokens. Then, in order, each on what the one before left:
//   penalties      engine/sampling/penalties.h
//   logit_bias     z += b
//   bans           z = -inf for banned_ids, for ids that end the answer before min_tokens, and for
//                  what the mask does not allow
//   temperature    z / T, softmax
//   top_k, top_p, min_p, typical_p        engine/sampling/cuts.h
//   a draw from what is left
// Among equals the lower id is the more likely one.
//
// Log probabilities are log softmax of the model's own logits, before any of these operations, as
// in vLLM's default: they say what the model thinks, and stay finite where an option leaves one
// token only.
class Sampler {
 public:
  // isa: absent, the best, or what PENSTOCK_CPU_ISA says; all choose the same tokens.
  explicit Sampler(SamplingOptions options, std::shared_ptr<TokenMask> mask = nullptr,
                   std::optional<Isa> isa = {});

  // Edits `logits` [vocab_size] in place, as above. `history` must extend the one of the call
  // before. `end_ids` end the answer when they are chosen.
  // A logit of NaN or +inf is a kInternal error that names the token; so are logits that are all
  // -inf. When bans leave nothing, that is kInvalidArgument.
  Result<SampledToken> sample(std::span<float> logits, TokenHistory history,
                              std::span<const int32_t> end_ids = {});

 private:
  bool bans(TokenHistory history) const;
  bool edits(TokenHistory history) const;
  Result<int32_t> choose(std::span<float> logits, TokenHistory history,
                         std::span<const int32_t> end_ids);
  void edit(std::span<float> logits, TokenHistory history, std::span<const int32_t> end_ids);
  void ban(std::span<float> logits, std::span<const int32_t> ids) const;
  Result<int32_t> choose_edited(std::span<const float> logits, TokenHistory history) const;

  SamplingOptions options_;
  std::shared_ptr<TokenMask> mask_;
  Isa isa_;
  Penalties penalties_;
  std::vector<float> model_logits_;  // scratch space: where both edits and logprobs are wanted
};

}  // namespace penstock
