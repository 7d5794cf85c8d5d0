// AVX2 kernels of GPTQ and AWQ.
#include "kernels/matmul/columns_avx2.h"
#include "kernels/matmul/int4_columns.h"

namespace penstock {

void add_int4_kernels_avx2(ExactKernels& kernels) {
  kernels.formats[static_cast<int>(Format::kGptq4)] = column_kernels<Gptq4>();
  kernels.formats[static_cast<int>(Format::kAwq4)] = column_kernels<Awq4>();
}

}  // namespace penstock
