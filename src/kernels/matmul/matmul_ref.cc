#include <cmath>
#include <vector>

#include "kernels/matmul/matmul.h"
#include "tensor/codec.h"

namespace penstock {
namespace {

constexpr size_t kLanes = 16;

float tree_sum(const float* x, std::span<const float> w) {
  float lane[kLanes] = {};
  for (size_t k = 0; k < w.size(); ++k) lane[k % kLanes] = std::fma(x[k], w[k], lane[k % kLanes]);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

}  // namespace

void matmul_exact_ref(const MatrixView& w, Range rows, Rows<const float> x, Rows<float> y) {
  std::vector<float> weights(static_cast<size_t>(w.cols));
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    widen_row(w, n, weights);
    for (int64_t t = 0; t < x.n_rows; ++t) y.row(t)[n] = w.scale * tree_sum(x.row(t), weights);
  }
}

}  // namespace penstock
