#include "kernels/exp.h"
#include "kernels/swiglu/swiglu.h"

namespace penstock {

void swiglu_exact_ref(Rows<const float> gate, Rows<const float> up, Rows<float> y) {
  for (int64_t t = 0; t < gate.n_rows; ++t) {
    for (int64_t i = 0; i < gate.cols; ++i) {
      const float g = gate.row(t)[i];
      y.row(t)[i] = g / (1.0F + exp_exact(-g)) * up.row(t)[i];
    }
  }
}

}  // namespace penstock
