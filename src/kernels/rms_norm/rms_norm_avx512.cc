#include "kernels/lanes_avx512.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_lanes.h"

namespace penstock {

void rms_norm_exact_avx512(Rows<const float> x, std::span<const float> w, float eps,
                           Rows<float> y) {
  norm_rows(x, w, eps, y);
}

}  // namespace penstock
