// y = W x for stored weights: the exact class (docs/design.md section 6a).
#pragma once

#include "cpu/isa.h"
#include "tensor/format.h"
#include "tensor/rows.h"

namespace penstock {

// For every token t and every row n in `rows`:
//   y[t, n] = W.scale * S,  S = tree sum of x[t, k] * w[n, k]
//   x  [n_tokens, W.cols] f32,  y [n_tokens, W.rows] f32; only columns `rows` of y are written
// Each w[n, k] is the stored weight widened to float32 (tensor/codec.h, widen_row). The sum has 16
// virtual lanes: lane[k % 16] = fma(x[t, k], w[n, k], lane[k % 16]) for k ascending, starting from
// +0, then lanes are added in halves: i and i + 8, then i + 4, i + 2, i + 1. So the result is
// bit-equal for any batch, split of rows, layout and isa. W must be whole and have a column.
// Fastest when rows of x start on cache lines, and W is not interleaved, which costs a copy of its
// rows. W is read once for all tokens (rows beyond 4096 columns: once for every 96). Allocates
// nothing but a thread's working memory, at its first call.
void matmul_exact(Isa isa, const MatrixView& w, Range rows, Rows<const float> x, Rows<float> y);

// The definition above, read plainly; weights through tensor/codec.h.
void matmul_exact_ref(const MatrixView& w, Range rows, Rows<const float> x, Rows<float> y);

}  // namespace penstock
