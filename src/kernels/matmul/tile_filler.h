// Widens tiles of a stored matrix to float32, whatever its format: through an isa's own unpacker
// where it has one, through tensor/codec.h otherwise.
#pragma once

#include "kernels/matmul/matmul_exact_kernels.h"
#include "tensor/rows.h"

namespace penstock {

// What kernels need of a matrix, in plain pointers.
StoredRows stored_rows(const MatrixView& w);

// Refers to `kernels` and `w`.
class TileFiller {
 public:
  static constexpr int64_t kMostCols = 4096;  // of one tile

  TileFiller(const ExactKernels& kernels, const MatrixView& w);

  // The isa's kernels for this matrix, or null.
  const FormatKernels* own() const { return own_; }
  const StoredRows& stored() const { return stored_; }
  const StoredColumns& stored_columns() const { return stored_columns_; }
  // Whether many rows are better filled together (see kMostColumnRows).
  bool by_columns() const { return own_ != nullptr && own_->fill_columns != nullptr; }

  // The tiles of `rows`, one after another; see FillTile. `cols` begins at a multiple of every
  // format's group, and has at most kMostCols.
  void fill_rows(Range rows, Range cols, float* tiles) const;

 private:
  const MatrixView& w_;
  StoredRows stored_;
  StoredColumns stored_columns_;
  const FormatKernels* own_ = nullptr;
};

}  // namespace penstock
