// RMS norm in the exact class.
#pragma once

#include <span>

#include "cpu/isa.h"
#include "tensor/rows.h"

namespace penstock {

// y[t, i] = w[i] * (x[t, i] * (1 / sqrt(S / cols + eps))),  S = sum_i x[t, i]^2
//   x, y [n_rows, cols] f32, may be the same memory;  w [cols] f32
// Every operation is rounded to float32, in the order written; S has the 16 virtual lanes of
// kernels/matmul/matmul.h. Zhang & Sennrich, arXiv:1910.07467.
void rms_norm_exact(Isa isa, Rows<const float> x, std::span<const float> w, float eps,
                    Rows<float> y);
void rms_norm_exact_ref(Rows<const float> x, std::span<const float> w, float eps, Rows<float> y);

// The versions rms_norm_exact chooses from.
void rms_norm_exact_avx2(Rows<const float> x, std::span<const float> w, float eps, Rows<float> y);
void rms_norm_exact_avx512(Rows<const float> x, std::span<const float> w, float eps, Rows<float> y);

}  // namespace penstock
