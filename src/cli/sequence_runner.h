// Runs one sequence on a model, without the engine: what `eval` and `bench` measure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/language_model.h"

namespace penstock {

class SequenceRunner {
 public:
  // Rows of logits [n, vocab_size], in order of position.
  using TakeLogits = std::function<Result<void>(std::span<const float> rows)>;

  // chunk: the most tokens in one step, > 0. Its KV pages are those from first_page on, which no
  // other runner uses. `model` outlives the runner.
  SequenceRunner(LanguageModel& model, int64_t chunk, int64_t first_page = 0)
      : model_(model), chunk_(chunk), first_page_(first_page) {}

  // Forgets the sequence; the next one will have at most planned_length tokens. Errors: more than
  // the model's context or its KV cache.
  Result<void> begin(int64_t planned_length);

  // Forgets the tokens behind the first `length`; there are as many.
  void rewind(int64_t length);

  int64_t vocab_size() const { return model_.spec().vocab_size; }

  // Appends `tokens` chunk by chunk, and gives `take` what `rows` asks for after each
  // step: kLast only after the last.
  Result<void> extend(std::span<const int32_t> tokens, TokenOrigin origin, LogitRows rows,
                      const TakeLogits& take);

  // For a step together with other sequences: the slice that appends `tokens`, valid until the
  // runner changes; and, once that step has run, its n tokens.
  SequenceSlice slice_of(std::span<const int32_t> tokens, TokenOrigin origin, LogitRows rows) const;
  void grow(size_t n_tokens) { length_ += static_cast<int64_t>(n_tokens); }

 private:
  LanguageModel& model_;
  int64_t chunk_;
  int64_t first_page_;
  int64_t length_ = 0;
  int64_t planned_length_ = 0;
  std::vector<PageId> pages_;
  std::vector<float> logits_;
};

// The id of the largest of a row of logits.
int32_t most_likely(std::span<const float> logits);

}  // namespace penstock
