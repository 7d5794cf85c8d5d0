// RMS norm in the exact class.
#pragma once

#include <span>

#include "cpu/isa.h"
#include "tensor/rows.h"

namespace penstock {

// y[t, i] = w[i] * (x[t, i] / sqrt(mean_i(x[t, i]^2) + eps))
//   x, y [n_rows, cols] f32, may be the same memory;  w [cols] f32
// The sum of squares has 16 virtual lanes (kernels/matmul/matmul.h). Zhang & Sennrich,
// arXiv:1910.07467.
void rms_norm_exact(Isa isa, Rows<const float> x, std::span<const float> w, float eps,
                    Rows<float> y);
void rms_norm_exact_ref(Rows<const float> x, std::span<const float> w, float eps, Rows<float> y);

}  // namespace penstock
