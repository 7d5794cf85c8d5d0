#include "engine/prefill_budget.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace penstock {
namespace {

// How much of an estimate a new measurement replaces: little, for most of what a single step says
// is about who else had the processor.
constexpr double kNewShare = 0.1;
// Beside a prompt answers find the caches cold, which is not what they take undisturbed.
constexpr double kNewShareBesidePrefill = 0.025;
// No single measurement moves an estimate further than this: one step may have lost the processor.
constexpr double kMostChange = 2.0;
// A long prompt leaves few steps without prefill; now and then two are kept free to measure.
constexpr int64_t kStepsBetweenMeasurements = 32;
// After so many steps without prefill the caches are the answers' again.
constexpr int64_t kUndisturbedSteps = 8;
// From a step with little prefill to one with much: in doublings, for nobody knows yet.
constexpr int kMostGrowth = 2;
constexpr int64_t kFirstTokens = 16;
// Without answers a step's time is the chunk's, but for what any step takes: told by a long one.
constexpr int64_t kLeastAlone = 64;
// A chunk is sized so that so many of its layers fill the room in a step: with fewer much of it
// would be left over, with more the chunk would be smaller than it can be.
constexpr int kLayersAStep = 3;
// Where a layer takes long whatever the chunk's size, tokens get as much of its time as the rest.
constexpr double kLeastTokenShare = 1.0;
// What layers may go beyond the room, where the next whole number of them nearly fits.
constexpr double kSlack = 1.1;
// Chunks take turns in size, so that the cost of a token shows.
constexpr double kSmallerTurn = 0.75;
// Steps' worth of time that the answers can owe to prefill, and it to them.
constexpr double kMostCredit = 16.0;
constexpr double kMostDebt = 64.0;
// What they owe beyond this is from steps that they had alone, and lets a prompt of some hundred
// tokens in sooner.
constexpr double kUsualCredit = 4.0;

double updated(double estimate, double measured, double share) {
  const double bounded =
      std::clamp(measured, estimate / kMostChange, std::max(estimate * kMostChange, 1e-9));
  return estimate + share * (bounded - estimate);
}

}  // namespace

bool PrefillBudget::is_due(int64_t n_decodes) const {
  if (is_unbounded(n_decodes)) return true;
  return decode_seconds(n_decodes) && n_since_measured_ < kStepsBetweenMeasurements &&
         credit_seconds_ >= 0.0;
}

double PrefillBudget::room(int64_t n_decodes) const {
  const double alone = decode_seconds(n_decodes).value_or(0.0);
  const bool is_owed = credit_seconds_ > kUsualCredit * alone;
  const double step =
      is_owed ? options_.longest_step : std::min(1.0 / options_.share, options_.longest_step);
  return alone * (step - 1.0);
}

int64_t PrefillBudget::chunk_tokens(int64_t n_decodes) const {
  if (is_unbounded(n_decodes)) return options_.most;
  const int64_t bound =
      std::min(options_.most, std::max(kFirstTokens, kMostGrowth * largest_tokens_));
  if (!cost_.is_known()) return std::min(bound, kFirstTokens);
  const double for_layer = room(n_decodes) / std::min(n_layers_, kLayersAStep);
  const double for_tokens =
      std::max(for_layer - cost_.fixed_seconds(), kLeastTokenShare * cost_.fixed_seconds());
  const double turn = is_smaller_turn_ ? kSmallerTurn : 1.0;
  const double fitting = std::floor(turn * for_tokens / std::max(cost_.token_seconds(), 1e-12));
  return std::clamp(fitting < static_cast<double>(bound) ? static_cast<int64_t>(fitting) : bound,
                    int64_t{1}, bound);
}

int PrefillBudget::layers(int64_t n_decodes, int64_t n_tokens, int n_left) const {
  if (is_unbounded(n_decodes)) return n_left;
  const int grown =
      was_too_long_ ? std::max(1, last_layers_ / 2) : kMostGrowth * std::max(1, last_layers_);
  const int bound = std::min(n_left, cost_.is_known() ? grown : 1);
  const double fitting = kSlack * room(n_decodes) / std::max(cost_.seconds(n_tokens), 1e-12);
  const int most = std::max(1, fitting < bound ? static_cast<int>(fitting) : bound);
  // As many in each of the steps that it takes anyway.
  const int n_steps = (n_left + most - 1) / most;
  return (n_left + n_steps - 1) / n_steps;
}

void PrefillBudget::record(const StepWork& work, double seconds) {
  const std::optional<double> alone = decode_seconds(work.n_decodes);
  if (alone && !is_unbounded(work.n_decodes)) {
    credit_seconds_ = std::clamp(credit_seconds_ + *alone / options_.share - seconds,
                                 -kMostDebt * *alone, kMostCredit * *alone);
  }
  if (work.n_prefill == 0) return record_undisturbed(work.n_decodes, seconds);
  last_had_prefill_ = true;
  n_undisturbed_ = 0;
  if (work.ends_chunk) is_smaller_turn_ = !is_smaller_turn_;
  double of_prefill = seconds;
  if (work.n_decodes > 0) {
    ++n_since_measured_;
    last_layers_ = work.n_layers;
    was_too_long_ = alone && seconds > options_.longest_step * *alone;
    // A chunk that takes too long though it crosses a single layer is too large.
    largest_tokens_ = was_too_long_ && work.n_layers == 1
                          ? work.n_prefill / (2 * kMostGrowth)
                          : std::max(largest_tokens_, work.n_prefill);
    of_prefill -= alone.value_or(0.0);
  }
  if (work.n_decodes > 0 || work.n_prefill >= kLeastAlone) {
    cost_.add(work.n_prefill, of_prefill / work.n_layers);
  }
}

void PrefillBudget::record_undisturbed(int64_t n_decodes, double seconds) {
  // After prefill its weights have to come back to the caches: not what it takes alone.
  if (std::exchange(last_had_prefill_, false)) return;
  const auto [known, is_new] = decode_seconds_.emplace(n_decodes, seconds);
  const bool beside_prefill = ++n_undisturbed_ < kUndisturbedSteps && n_since_measured_ > 0;
  if (beside_prefill && n_since_measured_ < kStepsBetweenMeasurements) return;
  const double share = beside_prefill ? kNewShareBesidePrefill : kNewShare;
  if (!is_new) known->second = updated(known->second, seconds, share);
  n_since_measured_ = 0;
}

// Unmeasured: at least what fewer answers took, and at least the same for each as more did.
std::optional<double> PrefillBudget::decode_seconds(int64_t n_decodes) const {
  const auto above = decode_seconds_.lower_bound(n_decodes);
  if (above != decode_seconds_.end() && above->first == n_decodes) return above->second;
  std::optional<double> least;
  if (above != decode_seconds_.begin()) least = std::prev(above)->second;
  if (above != decode_seconds_.end()) {
    const double each = above->second / static_cast<double>(above->first);
    least = std::max(least.value_or(0.0), each * static_cast<double>(n_decodes));
  }
  return least;
}

}  // namespace penstock
