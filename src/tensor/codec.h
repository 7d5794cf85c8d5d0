// The scalar reference codecs: what each stored format means, written to be checked by eye against
// docs/formats.md.
#pragma once

#include <span>

#include "tensor/format.h"
#include "tensor/rows.h"

namespace penstock {

// Writes row `row` of `matrix` [cols] as float32, the matrix's own `scale` included.
void decode_row(const MatrixView& matrix, int64_t row, std::span<float> out);

// As decode_row, but leaves out `matrix.scale`: the widened weights of the exact class
// (docs/design.md section 6a).
void widen_row(const MatrixView& matrix, int64_t row, std::span<float> out);

// widen_row for columns [cols.begin, cols.end) only, both multiples of the format's group or the
// row's end; out has cols.size() floats.
void widen_columns(const MatrixView& matrix, int64_t row, Range cols, std::span<float> out);

}  // namespace penstock
