#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/exp.h"
#include "kernels/logits/logits.h"

namespace penstock {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float sum_of_columns(std::array<float, kColumns> columns) {
  for (size_t half = kColumns / 2; half > 0; half /= 2) {
    for (size_t c = 0; c < half; ++c) columns[c] += columns[c + half];
  }
  return columns[0];
}

}  // namespace

bool column_maxima_ref(std::span<const float> logits, std::span<float> maxima) {
  std::ranges::fill(maxima, -kInfinity);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < kInfinity)) return false;
    float& largest = maxima[i / kStripe * kColumns + i % kColumns];
    if (logits[i] > largest) largest = logits[i];
  }
  return true;
}

WeightSums stripe_weights_ref(Softening by, std::span<const float> logits,
                              std::span<float> weights) {
  std::array<float, kColumns> weight = {};
  std::array<float, kColumns> weighted_lead = {};
  for (size_t i = 0; i < logits.size(); ++i) {
    const float lead = (logits[i] - by.largest) * by.inverse_temperature;
    const float x = lead > kLeastLead ? lead : kLeastLead;
    weights[i] = exp_exact(x);
    weight[i % kColumns] += weights[i];
    weighted_lead[i % kColumns] = std::fma(weights[i], x, weighted_lead[i % kColumns]);
  }
  return {sum_of_columns(weight), sum_of_columns(weighted_lead)};
}

}  // namespace penstock
