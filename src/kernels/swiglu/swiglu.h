// The gated activation of feed-forward blocks.
#pragma once

#include "cpu/isa.h"
#include "tensor/rows.h"

namespace penstock {

// y[t, i] = (gate[t, i] / (1 + exp(-gate[t, i]))) * up[t, i]
//   gate, up, y [n_tokens, dim] f32; y may be gate or up.
// Every operation is rounded to float32, exp is that of kernels/exp.h: the same bits on every isa.
// Shazeer, arXiv:2002.05202.
void swiglu_exact(Isa isa, Rows<const float> gate, Rows<const float> up, Rows<float> y);
void swiglu_exact_ref(Rows<const float> gate, Rows<const float> up, Rows<float> y);

// The versions swiglu_exact chooses from.
void swiglu_exact_avx2(Rows<const float> gate, Rows<const float> up, Rows<float> y);
void swiglu_exact_avx512(Rows<const float> gate, Rows<const float> up, Rows<float> y);

}  // namespace penstock
