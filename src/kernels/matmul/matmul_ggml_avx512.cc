// AVX-512 kernels of ggml's blocks of 32.
#include "kernels/matmul/codes_avx512.h"
#include "kernels/matmul/ggml_blocks.h"

namespace penstock {

void add_ggml_kernels_avx512(ExactKernels& kernels) {
  add_kernels<Q4_0>(kernels, Format::kQ4_0);
  add_kernels<Q4_1>(kernels, Format::kQ4_1);
  add_kernels<Q5_0>(kernels, Format::kQ5_0);
  add_kernels<Q5_1>(kernels, Format::kQ5_1);
  add_kernels<Q8_0>(kernels, Format::kQ8_0);
  add_kernels<IQ4_NL>(kernels, Format::kIQ4_NL);
}

}  // namespace penstock
