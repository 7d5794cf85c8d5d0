#include <vector>

#include "kernels/matmul/matmul_fast.h"
#include "tensor/codec.h"
#include "tensor/scalar_types.h"

namespace penstock {
namespace {

// y[t, n] = W.scale * sum_k round(w[n, k]) x(t, k), for x.n_rows rows
template <class Round, class Number>
void multiply(const MatrixView& w, Range rows, int64_t n_tokens, Round round, Number x,
              Rows<float> y) {
  std::vector<float> weights(static_cast<size_t>(w.cols));
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    widen_row(w, n, weights);
    for (int64_t t = 0; t < n_tokens; ++t) {
      double sum = 0.0;
      for (int64_t k = 0; k < w.cols; ++k)
        sum += double{round(weights[static_cast<size_t>(k)])} * x(t, k);
      y.row(t)[n] = static_cast<float>(double{w.scale} * sum);
    }
  }
}

float as_bf16(float number) { return bf16_to_f32(f32_to_bf16(number)); }

}  // namespace

void matmul_integer_ref(const MatrixView& w, Range rows, const Int16Rows& x, Rows<float> y) {
  multiply(
      w, rows, x.n_rows(), [](float weight) { return weight; },
      [&](int64_t t, int64_t k) {
        const Int16Row row = x.row(t);
        return double{row.scale(k / kInt16Group)} * (256 * row.high[k] + row.low[k]);
      },
      y);
}

void matmul_bf16_ref(const MatrixView& w, Range rows, Rows<const float> x, Rows<float> y) {
  multiply(
      w, rows, x.n_rows, as_bf16,
      [&](int64_t t, int64_t k) { return double{as_bf16(x.row(t)[k])}; }, y);
}

}  // namespace penstock
