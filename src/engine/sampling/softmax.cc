#include "engine/sampling/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace penstock {

Softmax::Softmax(Isa isa, const LogitRow& row, double temperature)
    : isa_(isa),
      row_(row),
      temperature_(temperature),
      inverse_temperature_(1.0 / temperature),
      by_{row.largest(), static_cast<float>(1.0 / temperature)} {}

double Softmax::lead(float logit) const {
  return (double{logit} - double{row_.largest()}) * inverse_temperature_;
}

float Softmax::logit_below(double lead) const {
  // Leads within reach of exp differ from the exact ones by less than 1e-4, and the cast to float
  // by less than one step of the larger of the two logits.
  const double exact = double{row_.largest()} + temperature_ * (lead - 1e-3);
  return static_cast<float>(exact - 1e-6 * std::abs(exact));
}

std::span<const float> Softmax::stripe(size_t s) const {
  const std::span<const float> logits = row_.logits();
  const size_t begin = s * kStripe;
  return logits.subspan(begin, std::min(kStripe, logits.size() - begin));
}

Softmax::Sums Softmax::add_up() const {
  Sums sums;
  double weighted_lead = 0.0;
  std::array<float, kStripe> weights;
  for (size_t s = 0; s < n_stripes(row_.logits().size()); ++s) {
    const auto z = stripe(s);
    const WeightSums of_stripe = stripe_weights(isa_, by_, z, std::span(weights).first(z.size()));
    sums.weight += double{of_stripe.weight};
    weighted_lead += double{of_stripe.weighted_lead};
    sums.stripes.push_back(double{of_stripe.weight});
  }
  sums.mean_lead = weighted_lead / sums.weight;
  return sums;
}

std::vector<Candidate> Softmax::candidates_from(float least) const {
  const std::vector<int32_t> ids = row_.ids_from(least);
  std::vector<Candidate> candidates;
  candidates.reserve(ids.size());
  std::array<float, kStripe> weights;
  size_t weighed = n_stripes(row_.logits().size());  // none
  for (const int32_t id : ids) {
    const auto i = static_cast<size_t>(id);
    if (const size_t s = i / kStripe; s != weighed) {
      const auto z = stripe(s);
      stripe_weights(isa_, by_, z, std::span(weights).first(z.size()));
      weighed = s;
    }
    const float weight = weights[i % kStripe];
    if (weight > 0.0F) candidates.push_back({row_.logits()[i], weight, id});
  }
  return candidates;
}

int32_t Softmax::draw(const Sums& sums, double position) const {
  double left = position * sums.weight;
  size_t s = 0;
  for (size_t i = 0; i < sums.stripes.size(); ++i) {
    if (sums.stripes[i] == 0.0) continue;
    s = i;
    if (left < sums.stripes[i]) break;
    left -= sums.stripes[i];
  }
  std::array<float, kStripe> weights;
  const auto z = stripe(s);
  stripe_weights(isa_, by_, z, std::span(weights).first(z.size()));
  size_t last = 0;  // with a weight: when roundings let the walk reach the end
  for (size_t i = 0; i < z.size(); ++i) {
    if (weights[i] == 0.0F) continue;
    last = i;
    left -= double{weights[i]};
    if (left < 0.0) break;
  }
  return static_cast<int32_t>(s * kStripe + last);
}

}  // namespace penstock
