#include "kernels/logits/logits.h"

#include "base/check.h"

namespace penstock {

bool column_maxima(Isa isa, std::span<const float> logits, std::span<float> maxima) {
  PENSTOCK_CHECK(maxima.size() == n_stripes(logits.size()) * kColumns, "a maximum per column");
  switch (isa) {
    case Isa::kScalar:
      return column_maxima_ref(logits, maxima);
    case Isa::kAvx2:
      return column_maxima_avx2(logits, maxima);
    case Isa::kAvx512:
    case Isa::kAmx:
      return column_maxima_avx512(logits, maxima);
  }
  __builtin_unreachable();
}

WeightSums stripe_weights(Isa isa, Softening by, std::span<const float> logits,
                          std::span<float> weights) {
  PENSTOCK_CHECK(!logits.empty() && logits.size() <= kStripe, "one stripe");
  PENSTOCK_CHECK(weights.size() == logits.size(), "a weight per logit");
  switch (isa) {
    case Isa::kScalar:
      return stripe_weights_ref(by, logits, weights);
    case Isa::kAvx2:
      return stripe_weights_avx2(by, logits, weights);
    case Isa::kAvx512:
    case Isa::kAmx:
      return stripe_weights_avx512(by, logits, weights);
  }
  __builtin_unreachable();
}

}  // namespace penstock
