#include "engine/prefill_budget.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace penstock {
namespace {

// How much of an estimate a new measurement replaces. Prompt tokens grow dearer as the prompt's
// attention does, so a dearer one counts at once; a cheaper one may be luck.
constexpr double kDearerShare = 0.6;
constexpr double kCheaperShare = 0.2;
// No single measurement moves an estimate further than this: one step may have lost the processor.
constexpr double kMostChange = 2.0;
// A long prompt leaves no step without prefill; now and then two are kept free to measure.
constexpr int64_t kStepsBetweenMeasurements = 32;
// From a step with few prompt tokens to one with many: in doublings, for small chunks cost more.
constexpr int64_t kMostGrowth = 2;
constexpr int64_t kFirstBudget = 16;

double updated(double estimate, double measured) {
  const double bounded =
      std::clamp(measured, estimate / kMostChange, std::max(estimate * kMostChange, 1e-9));
  return estimate + (bounded > estimate ? kDearerShare : kCheaperShare) * (bounded - estimate);
}

}  // namespace

int64_t PrefillBudget::tokens(int64_t n_decodes) const {
  if (n_decodes == 0 || options_.share <= 0.0) return options_.most;
  const std::optional<double> alone = decode_seconds(n_decodes);
  if (!alone || n_since_measured_ >= kStepsBetweenMeasurements) return 0;
  const int64_t bound = std::min(options_.most, std::max(kFirstBudget, kMostGrowth * last_budget_));
  if (!prefill_seconds_) return std::min(bound, kFirstBudget);
  const double room = *alone / options_.share - *alone;
  const double fitting = std::floor(room / *prefill_seconds_);
  return std::clamp(fitting < static_cast<double>(bound) ? static_cast<int64_t>(fitting) : bound,
                    int64_t{1}, bound);
}

void PrefillBudget::record(int64_t n_decodes, int64_t n_prefill, double seconds) {
  const bool after_prefill = std::exchange(last_had_prefill_, n_prefill > 0);
  if (n_prefill == 0) {
    if (after_prefill)
      return;  // its weights had to come back to the caches: not what it takes alone
    const auto [known, is_new] = decode_seconds_.emplace(n_decodes, seconds);
    if (!is_new) known->second = updated(known->second, seconds);
    n_since_measured_ = 0;
    return;
  }
  double of_prefill = seconds;
  if (n_decodes > 0) {
    ++n_since_measured_;
    last_budget_ = n_prefill;
    of_prefill -= decode_seconds(n_decodes).value_or(0.0);
  }
  const double measured = std::max(of_prefill, 1e-9) / static_cast<double>(n_prefill);
  prefill_seconds_ = prefill_seconds_ ? updated(*prefill_seconds_, measured) : measured;
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
