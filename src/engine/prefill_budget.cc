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
// From a step with few prompt tokens to one with many: in doublings, for nobody knows yet.
constexpr int64_t kMostGrowth = 2;
constexpr int64_t kFirstBudget = 8;
// Without answers a step's time is the chunk's, but for what any step takes: told by a long one.
constexpr int64_t kLeastAlone = 64;
// Where the chunk alone takes more than there is room for, its tokens get this share of its time.
constexpr double kLeastTokenShare = 0.15;
constexpr double kSmallerTurn = 0.6;
// Steps' worth of time that the answers can owe to prefill, and it to them: far into a prompt, a
// chunk of any size takes many.
constexpr double kMostCredit = 4.0;
constexpr double kMostDebt = 64.0;

double updated(double estimate, double measured, double share) {
  const double bounded =
      std::clamp(measured, estimate / kMostChange, std::max(estimate * kMostChange, 1e-9));
  return estimate + share * (bounded - estimate);
}

}  // namespace

int64_t PrefillBudget::tokens(int64_t n_decodes) const {
  if (n_decodes == 0 || options_.share <= 0.0) return options_.most;
  const std::optional<double> alone = decode_seconds(n_decodes);
  if (!alone || n_since_measured_ >= kStepsBetweenMeasurements) return 0;
  if (credit_seconds_ < 0.0) return 0;
  const int64_t grown = last_was_too_long_ ? last_budget_ / 2 : kMostGrowth * last_budget_;
  const int64_t bound = std::min(options_.most, std::max(kFirstBudget, grown));
  if (!cost_.is_known()) return std::min(bound, kFirstBudget);
  const double room = *alone * (options_.longest_step - 1.0) - cost_.fixed_seconds();
  const double for_tokens = std::max(room, kLeastTokenShare * cost_.fixed_seconds());
  // Sizes take turns, so that the cost of a token shows.
  const double turn = n_since_measured_ % 2 == 0 ? 1.0 : kSmallerTurn;
  const double fitting = std::floor(turn * for_tokens / std::max(cost_.token_seconds(), 1e-12));
  return std::clamp(fitting < static_cast<double>(bound) ? static_cast<int64_t>(fitting) : bound,
                    int64_t{1}, bound);
}

void PrefillBudget::record(int64_t n_decodes, int64_t n_prefill, double seconds) {
  if (const auto alone = decode_seconds(n_decodes); alone && n_decodes > 0 && options_.share > 0) {
    credit_seconds_ = std::clamp(credit_seconds_ + *alone / options_.share - seconds,
                                 -kMostDebt * *alone, kMostCredit * *alone);
  }
  const bool after_prefill = std::exchange(last_had_prefill_, n_prefill > 0);
  if (n_prefill == 0) {
    if (after_prefill)
      return;  // its weights had to come back to the caches: not what it takes alone
    const auto [known, is_new] = decode_seconds_.emplace(n_decodes, seconds);
    const bool beside_prefill = ++n_undisturbed_ < kUndisturbedSteps && n_since_measured_ > 0;
    if (beside_prefill && n_since_measured_ < kStepsBetweenMeasurements) return;
    const double share = beside_prefill ? kNewShareBesidePrefill : kNewShare;
    if (!is_new) known->second = updated(known->second, seconds, share);
    n_since_measured_ = 0;
    return;
  }
  n_undisturbed_ = 0;
  double of_prefill = seconds;
  if (n_decodes > 0) {
    ++n_since_measured_;
    last_budget_ = n_prefill;
    const std::optional<double> alone = decode_seconds(n_decodes);
    last_was_too_long_ = alone && seconds > options_.longest_step * *alone;
    of_prefill -= alone.value_or(0.0);
  }
  if (n_decodes > 0 || n_prefill >= kLeastAlone) cost_.add(n_prefill, of_prefill);
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
