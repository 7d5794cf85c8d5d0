#include "kernels/rms_norm/rms_norm.h"

#include "base/check.h"

namespace penstock {

void rms_norm_exact(Isa isa, Rows<const float> x, std::span<const float> w, float eps,
                    Rows<float> y) {
  PENSTOCK_CHECK(y.n_rows == x.n_rows && y.cols == x.cols, "x and y have one shape");
  PENSTOCK_CHECK(std::ssize(w) == x.cols, "a weight for each column");
  switch (isa) {
    case Isa::kScalar:
      return rms_norm_exact_ref(x, w, eps, y);
    case Isa::kAvx2:
      return rms_norm_exact_avx2(x, w, eps, y);
    case Isa::kAvx512:
    case Isa::kAmx:
      return rms_norm_exact_avx512(x, w, eps, y);
  }
}

}  // namespace penstock
