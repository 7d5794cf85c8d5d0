// The passes over logits, a column to each of the 16 lanes, for the isa files: include
// kernels/lanes_<isa>.h first.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/logits/logits.h"

namespace penstock {
namespace {

static_assert(kLanes == static_cast<int64_t>(kColumns));

// Up to 16 numbers, and -inf in the rest.
inline Lanes load_some(const float* p, int64_t n) {
  if (n >= kLanes) return load(p);
  return keep(load_first(p, n), 0, n, all(-std::numeric_limits<float>::infinity()));
}

// Logits, ahead of the lanes: most lie in the caches of other cores, which wrote them.
constexpr int64_t kAhead = 2048;

inline bool column_maxima_lanes(std::span<const float> logits, std::span<float> maxima) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  const auto n = static_cast<int64_t>(logits.size());
  Lanes faults = zero();  // NaN once there was one, or +inf
  float* out = maxima.data();
  for (int64_t begin = 0; begin < n; begin += kStripe, out += kColumns) {
    const int64_t end = std::min<int64_t>(n, begin + kStripe);
    Lanes largest = all(-kInfinity);
    for (int64_t i = begin; i < end; i += kLanes) {
      _mm_prefetch(logits.data() + i + kAhead, _MM_HINT_T0);
      const Lanes z = load_some(logits.data() + i, end - i);
      largest = larger(z, largest);
      // -inf is no fault, but times 0 it would be NaN.
      faults = fma(larger(all(kLowest), z), zero(), faults);
    }
    store(out, largest);
  }
  return sum(faults) == 0.0F;
}

inline WeightSums stripe_weights_lanes(Softening by, std::span<const float> logits,
                                       std::span<float> weights) {
  const auto n = static_cast<int64_t>(logits.size());
  Lanes weight = zero();
  Lanes weighted_lead = zero();
  for (int64_t i = 0; i < n; i += kLanes) {
    const Lanes z = load_some(logits.data() + i, n - i);
    const Lanes x = larger((z - all(by.largest)) * all(by.inverse_temperature), all(kLeastLead));
    const Lanes w = exp_lanes(x);
    weight = weight + w;
    weighted_lead = fma(w, x, weighted_lead);
    if (n - i >= kLanes) {
      store(weights.data() + i, w);
    } else {
      store_first(weights.data() + i, n - i, w);
    }
  }
  return {sum(weight), sum(weighted_lead)};
}

}  // namespace
}  // namespace penstock
