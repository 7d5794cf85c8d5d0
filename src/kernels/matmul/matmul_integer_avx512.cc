// The integer product on AVX-512 VNNI.
#include "kernels/matmul/integer_lanes_avx512.h"
#include "kernels/matmul/integer_product.h"
#include "kernels/matmul/integer_vnni.h"

namespace penstock {
namespace {

struct Avx512Vnni {
  static constexpr int kTokensAtOnce = 4;
  [[gnu::always_inline]] static Words add(Words sum, Words codes, Words x) {
    return _mm512_dpbusd_epi32(sum, codes, x);
  }
};

constexpr IntegerKernels kKernels = make_integer_kernels<LaneProduct<VnniProducts<Avx512Vnni>>>();

}  // namespace

const IntegerKernels& integer_kernels_avx512() { return kKernels; }

}  // namespace penstock
