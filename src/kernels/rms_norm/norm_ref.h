// The scalar reference of a norm in GPU kernels.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace penstock {

// y = x / sqrt(mean(x^2) + eps) * weight, of a row.
inline void norm_row(std::span<const float> x, std::span<const float> weight, float eps,
                     std::span<float> y) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  const double factor = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(x[i] * factor * weight[i]);
}

}  // namespace penstock
