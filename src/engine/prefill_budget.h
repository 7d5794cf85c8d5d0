// Decides how many prompt tokens a step may carry beside running answers, so that these keep a
// stated share of the speed they have alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace penstock {

struct PrefillBudgetOptions {
  int64_t most = 512;  // prompt tokens in one step
  // A step with prefill may take 1 / share times as long as one without. 0: as long as it wants.
  double share = 0.38;  // the promise is 0.30; the rest is for what no estimate foresees
};

// Learns from the steps' durations what a decode step takes for each number of answers, and what a
// prompt token adds. What it says depends on nothing else: no clock of its own, no threads.
class PrefillBudget {
 public:
  explicit PrefillBudget(PrefillBudgetOptions options) : options_(options) {}

  // For a step with n_decodes answers in it. 0: this step and the next are to show what answers
  // take alone.
  int64_t tokens(int64_t n_decodes) const;
  // What a step with these took.
  void record(int64_t n_decodes, int64_t n_prefill, double seconds);

 private:
  std::optional<double> decode_seconds(int64_t n_decodes) const;

  PrefillBudgetOptions options_;
  std::map<int64_t, double> decode_seconds_;  // by the number of answers in the step
  std::optional<double> prefill_seconds_;     // for one token
  int64_t last_budget_ = 0;                   // tokens in the last step that had both
  int64_t n_since_measured_ = 0;              // steps that had both
  bool last_had_prefill_ = false;
};

}  // namespace penstock
