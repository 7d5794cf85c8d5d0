#include "kernels/lanes_avx2.h"
#include "kernels/logits/logits.h"
#include "kernels/logits/logits_lanes.h"

namespace penstock {

bool column_maxima_avx2(std::span<const float> logits, std::span<float> maxima) {
  return column_maxima_lanes(logits, maxima);
}

WeightSums stripe_weights_avx2(Softening by, std::span<const float> logits,
                               std::span<float> weights) {
  return stripe_weights_lanes(by, logits, weights);
}

}  // namespace penstock
