#include "tensor/codec.h"

#include <vector>

#include "base/check.h"
#include "tensor/codec_parts.h"
#include "tensor/interleave.h"

namespace penstock {
namespace {

// Through a copy of the row as it is stored by rows.
void widen_interleaved(const MatrixView& matrix, int64_t row, Range cols, std::span<float> out) {
  std::vector<std::byte> data(row_bytes(matrix.format, matrix.cols));
  std::vector<std::byte> scales(scales_bytes(matrix) / static_cast<size_t>(matrix.rows));
  widen_columns(rows_of(matrix, {row, row + 1}, data, scales), 0, cols, out);
}

}  // namespace

void widen_columns(const MatrixView& matrix, int64_t row, Range cols, std::span<float> out) {
  PENSTOCK_CHECK(row >= 0 && row < matrix.rows, "row outside the matrix");
  PENSTOCK_CHECK(cols.begin >= 0 && cols.begin <= cols.end && cols.end <= matrix.cols,
                 "columns outside the matrix");
  PENSTOCK_CHECK(
      cols.begin % info(matrix.format).group == 0 && cols.end % info(matrix.format).group == 0,
      "columns cut a group");
  PENSTOCK_CHECK(out.size() == static_cast<size_t>(cols.size()), "out has another length");
  if (matrix.layout == Layout::kInterleaved) return widen_interleaved(matrix, row, cols, out);
  switch (matrix.format) {
    case Format::kF32:
    case Format::kF16:
    case Format::kBF16:
      return widen_plain(matrix, row, cols, out.data());
    case Format::kQ4_0:
    case Format::kQ4_1:
    case Format::kQ5_0:
    case Format::kQ5_1:
    case Format::kQ8_0:
    case Format::kQ2_K:
    case Format::kQ3_K:
    case Format::kQ4_K:
    case Format::kQ5_K:
    case Format::kQ6_K:
    case Format::kIQ4_NL:
    case Format::kIQ4_XS:
    case Format::kMxfp4Block:
    case Format::kNvfp4Block:
      return widen_ggml(matrix, row, cols, out.data());
    case Format::kMxfp4:
    case Format::kNvfp4:
      return widen_fp4(matrix, row, cols, out.data());
    case Format::kFp8Block:
    case Format::kFp8Tensor:
    case Format::kFp8Channel:
      return widen_fp8(matrix, row, cols, out.data());
    case Format::kGptq4:
    case Format::kAwq4:
      return widen_int4(matrix, row, cols, out.data());
  }
}

void widen_row(const MatrixView& matrix, int64_t row, std::span<float> out) {
  widen_columns(matrix, row, {0, matrix.cols}, out);
}

void decode_row(const MatrixView& matrix, int64_t row, std::span<float> out) {
  widen_row(matrix, row, out);
  for (float& value : out) value *= matrix.scale;
}

}  // namespace penstock
