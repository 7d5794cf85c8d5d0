// What codec.cc is made of: the readers of each family of formats. All leave out matrix.scale and
// write cols.size() floats of columns `cols` of row `row`.
#pragma once

#include "tensor/format.h"
#include "tensor/rows.h"

namespace penstock {

// ggml blocks (codec_ggml.cc); cols in whole blocks.
void widen_ggml(const MatrixView& matrix, int64_t row, Range cols, float* out);
// E2M1 codes with E8M0 or E4M3 scales apart (codec_fp.cc); cols in whole groups.
void widen_fp4(const MatrixView& matrix, int64_t row, Range cols, float* out);
// E4M3 codes with scales per block, matrix or row (codec_fp.cc).
void widen_fp8(const MatrixView& matrix, int64_t row, Range cols, float* out);
// F32, F16, BF16 (codec_fp.cc).
void widen_plain(const MatrixView& matrix, int64_t row, Range cols, float* out);
// GPTQ and AWQ (codec_int4.cc).
void widen_int4(const MatrixView& matrix, int64_t row, Range cols, float* out);

}  // namespace penstock
