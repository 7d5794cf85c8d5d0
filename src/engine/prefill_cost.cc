#include "engine/prefill_cost.h"

#include <algorithm>
#include <cstdlib>

namespace penstock {
namespace {

constexpr double kMostSurprise = 2.0;
constexpr double kNewSlopeShare = 0.2;
constexpr double kNewFixedShare = 0.4;
// Sizes that differ by less than an eighth tell nothing about a token.
constexpr int64_t kLeastDifference = 8;
constexpr double kLeastSeconds = 1e-9;

}  // namespace

void PrefillCost::add(int64_t n_tokens, double seconds) {
  const auto n = static_cast<double>(n_tokens);
  double s = std::max(seconds, kLeastSeconds);
  if (!is_known()) {
    each_ = s / n;
  } else {
    const double expected = this->seconds(n_tokens);
    // A first chunk tells nothing of another size.
    if (has_slope_) s = std::clamp(s, expected / kMostSurprise, expected * kMostSurprise);
    const int64_t difference = n_tokens - last_tokens_;
    if (std::abs(difference) * kLeastDifference >= std::max(n_tokens, last_tokens_)) {
      const double slope =
          std::clamp((s - last_seconds_) / static_cast<double>(difference), 0.0, s / n);
      each_ = has_slope_ ? each_ + kNewSlopeShare * (slope - each_) : slope;
      has_slope_ = true;
    }
    const double fixed = std::max(s - each_ * n, 0.0);
    fixed_ = has_slope_ ? fixed_ + kNewFixedShare * (fixed - fixed_) : fixed;
  }
  last_tokens_ = n_tokens;
  last_seconds_ = s;
}

double PrefillCost::seconds(int64_t n_tokens) const {
  return fixed_ + each_ * static_cast<double>(n_tokens);
}

}  // namespace penstock
