#include "kernels/lanes_avx2.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_lanes.h"

namespace penstock {

void rms_norm_exact_avx2(Rows<const float> x, std::span<const float> w, float eps, Rows<float> y) {
  norm_rows(x, w, eps, y);
}

}  // namespace penstock
