#include <cmath>

#include "kernels/rms_norm/rms_norm.h"

namespace penstock {
namespace {

float sum_of_squares(const float* x, int64_t cols) {
  float lanes[16] = {};
  for (int64_t i = 0; i < cols; ++i) lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace

void rms_norm_exact_ref(Rows<const float> x, std::span<const float> w, float eps, Rows<float> y) {
  for (int64_t t = 0; t < x.n_rows; ++t) {
    const float mean = sum_of_squares(x.row(t), x.cols) / static_cast<float>(x.cols);
    const float factor = 1.0F / std::sqrt(mean + eps);
    for (int64_t i = 0; i < x.cols; ++i) {
      y.row(t)[i] = w[static_cast<size_t>(i)] * (x.row(t)[i] * factor);
    }
  }
}

}  // namespace penstock
