// What the ISA files of the integer product offer, in plain pointers (see matmul_exact_kernels.h).
#pragma once

#include "kernels/matmul/int16_rows.h"
#include "kernels/matmul/matmul_exact_kernels.h"

namespace penstock {

// Where a group's codes go.
struct GroupCodes {
  int8_t* high = nullptr;
  int8_t* low = nullptr;
  float* scale = nullptr;
  float* sum_32 = nullptr;
  float* sums_16 = nullptr;  // of the first half, and kInt16RowGroup further of the second
};

void quantise_group_avx2(const float* x, int64_t n, const GroupCodes& to);
void quantise_group_avx512(const float* x, int64_t n, const GroupCodes& to);
// kInt16Span columns, 16 groups, of which `to` is the first.
void quantise_span_avx512(const float* x, const GroupCodes& to);

// y[t * y_stride + n] = scale times the product of weight row n with x[t], for n in `rows` and
// n_tokens tokens, which are rows of one Int16Rows, in its order. w has n_rows rows, at least
// kLeastIntegerRows.
inline constexpr int64_t kLeastIntegerRows = 16;
using MultiplyIntegerRows = void (*)(const StoredRows& w, int64_t n_rows, Range rows,
                                     const Int16Row* x, int64_t n_tokens, float scale, float* y,
                                     int64_t y_stride);

// By format and layout; null for those that have no such kernel.
struct IntegerKernels {
  MultiplyIntegerRows multiply_rows[kFormatCount] = {};
  MultiplyIntegerRows multiply_interleaved[kFormatCount] = {};

  MultiplyIntegerRows of(Format format, Layout layout) const {
    const auto at = static_cast<size_t>(format);
    return layout == Layout::kRows ? multiply_rows[at] : multiply_interleaved[at];
  }
};
const IntegerKernels& integer_kernels_avx2();
const IntegerKernels& integer_kernels_avxvnni();  // where has_avx_vnni()
const IntegerKernels& integer_kernels_avx512();
// For kLeastTileTokens and more; fewer are slower than by integer_kernels_avx512().
const IntegerKernels& integer_kernels_amx();
inline constexpr int64_t kLeastTileTokens = 3;

}  // namespace penstock
