// AVX-512 kernels of ggml's blocks of 256.
#include "kernels/matmul/codes_avx512.h"
#include "kernels/matmul/kquant_blocks.h"

namespace penstock {

void add_kquant_kernels_avx512(ExactKernels& kernels) {
  add_kernels<Q2_K>(kernels, Format::kQ2_K);
  add_kernels<Q3_K>(kernels, Format::kQ3_K);
  add_kernels<Q4_K>(kernels, Format::kQ4_K);
  add_kernels<Q5_K>(kernels, Format::kQ5_K);
  add_kernels<Q6_K>(kernels, Format::kQ6_K);
  add_kernels<IQ4_XS>(kernels, Format::kIQ4_XS);
}

}  // namespace penstock
