// y = W x for stored weights: the fast class (docs/design.md section 6a).
#pragma once

#include "cpu/isa.h"
#include "kernels/matmul/bf16_tiles.h"
#include "kernels/matmul/int16_rows.h"
#include "tensor/format.h"
#include "tensor/rows.h"

namespace penstock {

// A step's activations, made ready once for all matrices that multiply them. The first n_decode
// rows are decoded tokens, the others tokens of prompts: a row's kind decides its arithmetic, never
// how many rows there are. Refers to x.
class FastActivations {
 public:
  // Then prepare() has to cover [0, n_parts) before anything is multiplied. `integer`: some of the
  // matrices have an integer kernel.
  void begin(Isa isa, Rows<const float> x, int64_t n_decode, bool integer);
  int64_t n_parts() const { return codes_.n_rows() + (uses_tiles() ? tiles_.n_token_tiles() : 0); }
  void prepare(Range parts);

  Rows<const float> decode_rows() const { return {x_.data, n_decode_, x_.cols, x_.stride}; }
  Rows<const float> prefill_rows() const {
    return {x_.row(n_decode_), x_.n_rows - n_decode_, x_.cols, x_.stride};
  }
  const Int16Rows& codes() const { return codes_; }  // of the decode rows, where asked for
  const Bf16Tiles& tiles() const { return tiles_; }  // of the others, on kAmx

 private:
  bool uses_tiles() const { return isa_ == Isa::kAmx; }

  Isa isa_ = Isa::kScalar;
  Rows<const float> x_ = {};
  int64_t n_decode_ = 0;
  Int16Rows codes_;
  Bf16Tiles tiles_;
};

// Whether decode multiplies w in integers: where not, in float32, as the exact class does. It takes
// a format with a kernel and 16 rows.
bool has_integer_kernel(Isa isa, const MatrixView& w);

// For every row t of x and every row n in `rows`, y[t, n] = W.scale * sum_k w[n, k] x[t, k]:
//   a decode row, where has_integer_kernel: x as Int16Rows; exact int32 sums over each of w's
//   groups
//     of columns, times the group's scales, added in float32 in a fixed order
//   a prompt's row, on kAmx: x and w rounded to bf16; float32 sums in ascending order of columns
//   otherwise: matmul_exact
// So a row's result does not depend on the other rows, on how many there are, on how `rows` was
// split or on w's layout. `rows` of an interleaved matrix begin where a panel does. Allocates
// nothing but a thread's working memory, at its first call.
void matmul_fast(Isa isa, const MatrixView& w, Range rows, const FastActivations& x, Rows<float> y);

// The two products above without rounding but their operands', in doubles.
void matmul_integer_ref(const MatrixView& w, Range rows, const Int16Rows& x, Rows<float> y);
void matmul_bf16_ref(const MatrixView& w, Range rows, Rows<const float> x, Rows<float> y);

}  // namespace penstock
