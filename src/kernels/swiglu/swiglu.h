// The gated activation of feed-forward blocks.
#pragma once

#include "cpu/isa.h"
#include "tensor/rows.h"

namespace penstock {

// y[t, i] = silu(gate[t, i]) * up[t, i],  silu(g) = g / (1 + exp(-g)); exp from kernels/exp.h, the
// same bits on every isa.
//   gate, up, y [n_tokens, dim] f32; y may be gate or up. Shazeer, arXiv:2002.05202.
void swiglu_exact(Isa isa, Rows<const float> gate, Rows<const float> up, Rows<float> y);
void swiglu_exact_ref(Rows<const float> gate, Rows<const float> up, Rows<float> y);

}  // namespace penstock
