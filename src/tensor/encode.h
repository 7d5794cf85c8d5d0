// Quantisers: one row of float32 into the formats that `penstock pack --experts-format` offers.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "tensor/format.h"

namespace penstock {

// The formats encode_row writes: bf16, q8_0, q4_0, mxfp4, nvfp4.
bool can_encode(Format format);

// The `scale` of an NVFP4 matrix whose largest magnitude is `amax`: amax / 2688, so that the
// largest element is the largest code (6) times the largest block scale (448). Finite and above 0
// for every finite amax; 1 for a matrix of zeros.
float nvfp4_matrix_scale(float amax);

// Writes `row` [cols] in `format`.
//   cols    a multiple of info(format).group
//   data    [row_bytes(format, cols)]
//   scales  [cols / 16] for nvfp4, [cols / 32] for mxfp4, empty for the others
//   matrix_scale  only nvfp4 reads it: nvfp4_matrix_scale of the whole matrix
// Rounding: bf16 to nearest even; q8_0 and q4_0 as ggml's reference quantiser (docs/pack.md); the
// codes of mxfp4 and nvfp4 to nearest, ties to the even code. A NaN, an infinity or a number beyond
// the format's range is an error that names the column; data and scales are then unspecified.
Result<void> encode_row(Format format, std::span<const float> row, float matrix_scale,
                        std::span<std::byte> data, std::span<std::byte> scales);

}  // namespace penstock
