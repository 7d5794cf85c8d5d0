// exp of the isa versions over whole arrays, for exp_test.cc: the vector versions live in files
// compiled for their isa.
#pragma once

#include <span>

namespace penstock {

// y = exp(x) for a multiple of 16 numbers.
void exp_rows_avx2(std::span<const float> x, std::span<float> y);
void exp_rows_avx512(std::span<const float> x, std::span<float> y);

}  // namespace penstock
