// Decides how much of a prompt a step may carry beside running answers, so that these keep a stated
// share of the speed they have alone: how many tokens a chunk has, and how many layers it crosses
// in a step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "engine/prefill_cost.h"

namespace penstock {

struct PrefillBudgetOptions {
  int64_t most = 512;  // prompt tokens in one chunk
  // Running answers keep this share of their speed on average; 0: prefill takes what it wants.
  double share = 0.40;  // the promise is 0.30; the rest is for what no estimate foresees
  // A step that takes more than so many times what it would without prefill was too long (promised:
  // 4, as far as one layer of a small chunk is quick enough).
  double longest_step = 3.3;
};

// What one step did.
struct StepWork {
  int64_t n_decodes = 0;    // answers in it
  int64_t n_prefill = 0;    // tokens of the chunk in it; 0: there was none
  int n_layers = 0;         // that the chunk crossed
  bool ends_chunk = false;  // among them the last
};

// Learns from the steps' durations what a decode step takes for each number of answers, and what a
// chunk adds for each layer. What it says depends on nothing else: no clock of its own, no threads.
class PrefillBudget {
 public:
  PrefillBudget(PrefillBudgetOptions options, int n_layers)
      : options_(options), n_layers_(n_layers) {}

  // Whether a step with n_decodes answers may carry prefill at all. If not, the answers are to have
  // it alone, to catch up or to show what they take.
  bool is_due(int64_t n_decodes) const;
  // For a new chunk: the most tokens, at least one.
  int64_t chunk_tokens(int64_t n_decodes) const;
  // How many layers a chunk of n_tokens crosses in the next step, of the n_left it has before it.
  int layers(int64_t n_decodes, int64_t n_tokens, int n_left) const;

  void record(const StepWork& work, double seconds);

 private:
  void record_undisturbed(int64_t n_decodes, double seconds);
  std::optional<double> decode_seconds(int64_t n_decodes) const;
  bool is_unbounded(int64_t n_decodes) const { return n_decodes == 0 || options_.share <= 0.0; }
  // What prefill may take of a step, so that the answers keep their share on average.
  double room(int64_t n_decodes) const;

  PrefillBudgetOptions options_;
  int n_layers_;
  std::map<int64_t, double> decode_seconds_;  // by the number of answers in the step
  PrefillCost cost_;                          // of one layer
  double credit_seconds_ = 0.0;  // of the time that the answers owe to prefill; negative: it owes
  int64_t largest_tokens_ = 0;   // of chunks beside answers, as far as one layer was quick enough
  int last_layers_ = 0;          // of the last step that had both
  bool was_too_long_ = false;
  bool is_smaller_turn_ = false;
  int64_t n_since_measured_ = 0;  // steps that had both
  int64_t n_undisturbed_ = 0;     // steps since one with prefill, but for the first
  bool last_had_prefill_ = false;
};

}  // namespace penstock
