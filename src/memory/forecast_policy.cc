#include "memory/forecast_policy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace penstock {
namespace {

// Visits of a layer after which a use counts half: what was used in this conversation counts,
// what was used in another one hardly.
constexpr double kHalfLife = 128.0;
// Visits that a layer's experts are taken to have had before the first, in which each was used as
// often as any other.
constexpr double kPriorVisits = 1.0;

}  // namespace

ForecastPolicy::ForecastPolicy(int n_layers, int n_experts, int top_k)
    : layers_(static_cast<size_t>(n_layers)), share_(static_cast<double>(top_k) / n_experts) {
  PENSTOCK_CHECK(n_layers > 0 && 0 < top_k && top_k <= n_experts, "a policy for no model");
  for (Layer& layer : layers_) {
    layer.experts.assign(static_cast<size_t>(n_experts), {.chance = share_});
  }
}

double ForecastPolicy::frequency(const Layer& layer, const Expert& expert) const {
  return (expert.n_uses + kPriorVisits * share_) / (layer.n_visits + kPriorVisits);
}

void ForecastPolicy::learn_repeats(const Layer& layer, std::span<const int> experts) {
  const double kept = std::exp2(-1.0 / (kHalfLife * static_cast<double>(layers_.size())));
  for (double* const count : {&n_last_, &n_repeated_, &n_expected_}) *count *= kept;
  for (const Expert& expert : layer.experts) {
    if (!expert.was_used) continue;
    n_last_ += 1.0;
    n_expected_ += frequency(layer, expert);
  }
  for (const int e : experts) {
    if (layer.experts[static_cast<size_t>(e)].was_used) n_repeated_ += 1.0;
  }
}

void ForecastPolicy::use(int layer, std::span<const int> experts) {
  static const double kept = std::exp2(-1.0 / kHalfLife);
  Layer& visited = layers_[static_cast<size_t>(layer)];
  learn_repeats(visited, experts);
  current_ = layer;
  visited.n_visits = visited.n_visits * kept + 1.0;
  for (Expert& expert : visited.experts) {
    expert.n_uses *= kept;
    expert.was_used = false;
  }
  for (const int e : experts) {
    visited.experts[static_cast<size_t>(e)].n_uses += 1.0;
    visited.experts[static_cast<size_t>(e)].was_used = true;
  }
  // Of uses that frequency did not foretell, the part that was a repetition.
  const double surprises = n_last_ - n_expected_;
  const double repeats =
      surprises > 0.0 ? std::clamp((n_repeated_ - n_expected_) / surprises, 0.0, 1.0) : 0.0;
  for (Expert& expert : visited.experts) {
    expert.chance = frequency(visited, expert) * (1.0 - repeats);
    if (expert.was_used) expert.chance += repeats;
  }
}

void ForecastPolicy::rate(std::span<const ExpertId> experts, std::span<double> worth) const {
  const auto n_layers = static_cast<int>(layers_.size());
  for (size_t i = 0; i < experts.size(); ++i) {
    const int ahead = experts[i].layer - current_;
    worth[i] = chance(experts[i]) / (ahead > 0 ? ahead : ahead + n_layers);
  }
}

}  // namespace penstock
