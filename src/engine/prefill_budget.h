// Decides how many prompt tokens a step may carry beside running answers, so that these keep a
// stated share of the speed they have alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "engine/prefill_cost.h"

namespace penstock {

struct PrefillBudgetOptions {
  int64_t most = 512;  // prompt tokens in one step
  // Running answers keep this share of their speed on average; 0: prefill takes what it wants.
  double share = 0.40;  // the promise is 0.30; the rest is for what no estimate foresees
  // And no step takes more than so many times what it would without prefill (promised: 4), as far
  // as a chunk can be small enough.
  double longest_step = 3.3;
};

// Learns from the steps' durations what a decode step takes for each number of answers, and what a
// chunk of a prompt adds. What it says depends on nothing else: no clock of its own, no threads.
class PrefillBudget {
 public:
  explicit PrefillBudget(PrefillBudgetOptions options) : options_(options) {}

  // For a step with n_decodes answers in it. 0: the answers are to have it alone, to catch up or to
  // show what they take.
  int64_t tokens(int64_t n_decodes) const;
  // What a step with these took.
  void record(int64_t n_decodes, int64_t n_prefill, double seconds);

 private:
  std::optional<double> decode_seconds(int64_t n_decodes) const;

  PrefillBudgetOptions options_;
  std::map<int64_t, double> decode_seconds_;  // by the number of answers in the step
  PrefillCost cost_;
  double credit_seconds_ = 0.0;   // of the time that the answers owe to prefill; negative: it owes
  int64_t last_budget_ = 0;       // tokens in the last step that had both
  int64_t n_since_measured_ = 0;  // steps that had both
  int64_t n_undisturbed_ = 0;     // steps since one with prefill, but for the first
  bool last_was_too_long_ = false;
  bool last_had_prefill_ = false;
};

}  // namespace penstock
