// Runs a model's prefill and decode for `penstock bench`, and times what counts of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cli/sequence_runner.h"
#include "model/language_model.h"
#include "model/profile.h"

namespace penstock {

class ModelTimer {
 public:
  struct Runs {
    int64_t chunk = 0;      // the most tokens of a prompt in one step, > 0
    int64_t n_prefill = 0;  // tokens of the prompt
    int64_t n_context = 0;  // tokens of a sequence before its decode begins, > 0
    int64_t n_decode = 0;   // tokens of a sequence that decode adds
    int64_t batch = 1;      // sequences that decode at once

    // Of the longest sequence.
    int64_t n_tokens() const { return std::max(n_prefill, n_context + n_decode); }
    // What the KV cache is to hold: whole pages for each sequence.
    int64_t kv_tokens() const;
  };

  // tokens: runs.n_tokens() of them. Prefill runs their beginning; the sequences of a batch begin
  // at places that are evenly apart, and go on round their end. `model` outlives the timer.
  ModelTimer(LanguageModel& model, const Runs& runs, std::vector<int32_t> tokens);

  std::optional<ExpertCounts> expert_counts() const { return model_.expert_counts(); }
  // Where steps that count spend their time goes there; null: nowhere.
  void set_profile(Profile* profile) { profile_ = profile; }
  // Which experts the steps choose goes there, context and all; null: nowhere.
  void set_routing_observer(RoutingObserver* observer) { model_.set_routing_observer(observer); }

  // Seconds for the prompt of one sequence from an empty context, in chunks.
  Result<double> prefill();
  // Seconds for the decode of the batch, one token of each sequence a step, behind contexts that
  // are not timed, and computed once.
  Result<double> decode();

 private:
  struct Sequence {
    SequenceRunner runner;
    std::vector<int32_t> tokens;
  };

  Result<void> run_contexts();
  Result<void> decode_step(size_t position);
  Result<double> seconds_of(const std::function<Result<void>()>& work);

  LanguageModel& model_;
  Runs runs_;
  std::vector<Sequence> sequences_;  // of the batch; prefill runs the first
  bool has_contexts_ = false;        // the sequences begin with decode's
  std::vector<SequenceSlice> slices_;
  std::vector<float> logits_;
  Profile* profile_ = nullptr;
};

}  // namespace penstock
