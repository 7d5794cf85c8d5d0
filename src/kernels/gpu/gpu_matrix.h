// A stored matrix in a GPU's memory, as host code passes it and kernels read it. For nvcc too:
// plain C++20 without the rest of Penstock.
#pragma once

#include <cstdint>

namespace penstock {

// What a kernel must know of a matrix W [rows, cols] besides where its bytes are. The bytes are as
// stored (docs/formats.md); data and scales begin on 16 bytes, and 16 bytes behind their end can be
// read.
struct GpuMatrixShape {
  int32_t rows = 0;
  int32_t cols = 0;
  uint32_t row_bytes = 0;        // of data
  uint32_t scale_row_bytes = 0;  // from one row of scales to the next; 0: formats without
  uint32_t block_rows = 1;       // FP8: rows and columns that share a scale
  uint32_t block_cols = 1;
  int32_t scale_format = 0;  // FP8: a ScaleFormat
  float scale = 1.0F;        // of the whole matrix
};

// Rows of a step that go through one expert.
struct GpuExpertGroup {
  int32_t expert = 0;     // within the layer
  int32_t first_row = 0;  // of the step's assignments, grouped by expert
  int32_t n_rows = 0;
  int32_t slot = 0;  // where the expert is
};

// Where the parts of an expert are in a slot, in bytes.
struct GpuExpertPart {
  uint32_t data = 0;
  uint32_t scales = 0;
};

}  // namespace penstock
