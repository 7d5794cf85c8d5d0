// The interleaved layout of a stored matrix: its rows in panels of 16, so that a kernel with a row
// to a lane reads one run of bytes from end to end and shuffles nothing. The bytes are the stored
// ones, in another order.
//
// A panel has its rows' blocks field by field. In a field, block by block, lies unit by unit what
// the 16 rows have there:
//   byte [field][block][unit][row][of the unit]
// Formats that keep scales apart have them as one more such run in the place of their scales.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/format.h"
#include "tensor/rows.h"

namespace penstock {

inline constexpr int64_t kInterleavedRows = 16;

// Bytes [at, at + bytes) of every block.
struct InterleavedField {
  int at = 0;
  int bytes = 0;
  int unit = 0;  // bytes that stay together: 1, 2 or 4
};

// Scales come before codes, so that a kernel may read some bytes more than a scale has.
struct InterleavedBlock {
  int cols = 0;  // 0: the format is never interleaved
  int bytes = 0;
  int n_fields = 0;
  InterleavedField fields[2] = {};

  // Of the fields before number f.
  constexpr int bytes_before(int f) const {
    int sum = 0;
    for (int i = 0; i < f; ++i) sum += fields[i].bytes;
    return sum;
  }
};

constexpr InterleavedBlock interleaved_block(Format format) {
  switch (format) {
    case Format::kQ4_0:
      return {32, 18, 2, {{0, 2, 2}, {2, 16, 4}}};
    case Format::kQ4_1:
      return {32, 20, 2, {{0, 4, 4}, {4, 16, 4}}};
    case Format::kQ8_0:
      return {32, 34, 2, {{0, 2, 2}, {2, 32, 4}}};
    case Format::kQ4_K:
      return {256, 144, 2, {{0, 16, 4}, {16, 128, 4}}};
    case Format::kQ6_K:
      return {256, 210, 2, {{208, 2, 2}, {0, 208, 4}}};
    case Format::kMxfp4Block:
      return {32, 17, 2, {{0, 1, 1}, {1, 16, 4}}};
    case Format::kNvfp4Block:
      return {64, 36, 2, {{0, 4, 4}, {4, 32, 4}}};
    case Format::kMxfp4:
    case Format::kNvfp4:
      return {32, 16, 1, {{0, 16, 4}}};
    default:
      return {};
  }
}
// Of the scales that such a format keeps apart: for the columns of one block of codes.
constexpr InterleavedBlock interleaved_scales(Format format) {
  switch (format) {
    case Format::kMxfp4:
      return {32, 1, 1, {{0, 1, 1}}};
    case Format::kNvfp4:
      return {32, 2, 1, {{0, 2, 1}}};
    default:
      return {};
  }
}

// Whether a matrix of this format and shape can be interleaved: whole panels of whole blocks.
bool has_interleaved_shape(const MatrixView& matrix);

// Brings `data` and `scales` of such a matrix from rows into that layout, in place; a panel at a
// time is copied. They are the spans of `matrix`, writable.
void interleave(const MatrixView& matrix, std::span<std::byte> data, std::span<std::byte> scales);

// These rows of an interleaved matrix as one that is stored by rows, for what reads no other
// layout. `data` and `scales` receive its bytes, and have to have room for them: so many rows of
// each.
MatrixView rows_of(const MatrixView& matrix, Range rows, std::span<std::byte> data,
                   std::span<std::byte> scales);

}  // namespace penstock
