// What the ISA files of the int8 product offer, in plain pointers (see matmul_exact_kernels.h).
#pragma once

#include "kernels/matmul/int8_rows.h"
#include "kernels/matmul/matmul_exact_kernels.h"

namespace penstock {

// Where a group's codes go.
struct GroupCodes {
  int8_t* codes = nullptr;
  float* scale = nullptr;
  float* sum_32 = nullptr;
  float* sums_16 = nullptr;
};

void quantise_group_avx512(const float* x, int64_t n, const GroupCodes& to);

// y[t * y_stride] = scale times the product of weight row `row` with x[t], for n_tokens tokens.
using MultiplyInt8Row = void (*)(const StoredRows& w, int64_t row, const Int8Row* x,
                                 int64_t n_tokens, float scale, float* y, int64_t y_stride);

// By format; null for those that have no int8 kernel.
struct Int8Kernels {
  MultiplyInt8Row multiply_row[kFormatCount] = {};
};
const Int8Kernels& int8_kernels_avx512();

}  // namespace penstock
