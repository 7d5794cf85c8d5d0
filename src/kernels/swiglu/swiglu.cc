#include "kernels/swiglu/swiglu.h"

#include "base/check.h"

namespace penstock {

void swiglu_exact(Isa isa, Rows<const float> gate, Rows<const float> up, Rows<float> y) {
  PENSTOCK_CHECK(up.n_rows == gate.n_rows && up.cols == gate.cols, "gate and up have one shape");
  PENSTOCK_CHECK(y.n_rows == gate.n_rows && y.cols == gate.cols, "gate and y have one shape");
  switch (isa) {
    case Isa::kScalar:
      return swiglu_exact_ref(gate, up, y);
    case Isa::kAvx2:
      return swiglu_exact_avx2(gate, up, y);
    case Isa::kAvx512:
    case Isa::kAmx:
      return swiglu_exact_avx512(gate, up, y);
  }
}

}  // namespace penstock
