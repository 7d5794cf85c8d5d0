// The integer product on AVX2 with AVX-VNNI.
#include "kernels/matmul/integer_lanes_avx2.h"
#include "kernels/matmul/integer_product.h"
#include "kernels/matmul/integer_vnni.h"

namespace penstock {
namespace {

struct AvxVnni {
  static constexpr int kTokensAtOnce = 2;
  [[gnu::always_inline]] static Words add(Words sum, Words codes, Words x) {
    return _mm256_dpbusd_avx_epi32(sum, codes, x);
  }
};

constexpr IntegerKernels kKernels = make_integer_kernels<LaneProduct<VnniProducts<AvxVnni>>>();

}  // namespace

const IntegerKernels& integer_kernels_avxvnni() { return kKernels; }

}  // namespace penstock
