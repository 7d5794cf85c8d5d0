// Rows of an interleaved matrix, copied to where kernels of Layout::kRows can read them.
#pragma once

#include <cstddef>
#include <vector>

#include "tensor/interleave.h"

namespace penstock {

// Memory for some rows; grows to what the largest take.
class RowCopy {
 public:
  // Good until the next call.
  MatrixView rows(const MatrixView& w, Range rows) {
    const auto n_rows = static_cast<size_t>(rows.size());
    grow(data_, n_rows * row_bytes(w.format, w.cols));
    grow(scales_, n_rows * (scales_bytes(w) / static_cast<size_t>(w.rows)));
    return rows_of(w, rows, data_, scales_);
  }

 private:
  static void grow(std::vector<std::byte>& bytes, size_t n) {
    if (bytes.size() < n) bytes.resize(n);
  }
  std::vector<std::byte> data_, scales_;
};

}  // namespace penstock
