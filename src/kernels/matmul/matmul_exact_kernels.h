// What the ISA files of the exact product offer to matmul_exact.cc, in plain pointers: an inline
// function shared with other files could be merged into code that runs on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace penstock {

inline constexpr int64_t kLaneCount = 16;
inline constexpr int64_t kTileRows = 4;  // weight rows that are multiplied together

// The stored rows of a matrix, as an unpacker reads them.
struct StoredRows {
  const uint8_t* data = nullptr;
  const uint8_t* scales = nullptr;  // of formats that keep them apart
  size_t row_bytes = 0;
  int64_t cols = 0;
  // FP8: the scale of [row, col] is number row / scale_rows * scales_per_row + col / scale_cols.
  ScaleFormat scale_format = ScaleFormat::kF32;
  int64_t scale_rows = 1;
  int64_t scale_cols = 1;
  int64_t scales_per_row = 0;
};

// A stored matrix of transposed 4-bit integers (GPTQ, AWQ): its columns lie one after another.
struct StoredColumns {
  const uint8_t* words = nullptr;
  const uint8_t* zeros = nullptr;
  const uint8_t* scales = nullptr;
  const uint8_t* order = nullptr;  // each column's group, where they are in no order
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t group_cols = 0;
  float added_zero = 0.0F;  // to the zeros that are stored
};

// Where the sums of one tile go: y[t * stride + r] = scale * sum of token t and row r < n_rows.
struct TileResults {
  float* y = nullptr;
  int64_t stride = 0;
  int n_rows = kTileRows;
  float scale = 1.0F;
};

// The lanes of a tile between two blocks of columns, [tokens][kTileRows][kLaneCount].
struct TileCarry {
  float* lanes = nullptr;
  bool first = true;  // lanes start from +0
  bool last = true;   // the sums are finished and written
};

// Widens columns [begin, end) of rows [row, row + n_rows) into `tile`, [ceil((end - begin) / 16)]
// [kTileRows][kLaneCount]. Rows beyond n_rows repeat the last one; columns beyond `end` are -0, so
// that +0 times it added to a lane changes nothing, not even the sign of a zero.
using FillTile = void (*)(const StoredRows& w, int64_t row, int n_rows, int64_t begin, int64_t end,
                          float* tile);

// Multiplies a filled tile by the `n_cols` columns of each token at x, `x_stride` floats apart.
using MultiplyTile = void (*)(const float* tile, int64_t n_cols, const float* x, int64_t x_stride,
                              const TileCarry& carry, const TileResults& results);

// Both at once for few tokens, without a tile in memory: results.n_rows rows from `row`.
using MultiplyRows = void (*)(const StoredRows& w, int64_t row, const float* x, int64_t x_stride,
                              const TileResults& results);

// The same for matrices whose columns lie together. These take up to kMostColumnRows rows at once,
// best from a multiple of that on: a stored word has a column of eight rows, and a cache line of
// up to 128.
inline constexpr int kMostColumnRows = 128;

// FillTile for the n_rows / kTileRows tiles that rows [row, row + n_rows) are, one after another.
using FillColumns = void (*)(const StoredColumns& w, int64_t row, int64_t n_rows, int64_t begin,
                             int64_t end, float* tiles);

// MultiplyRows; `lanes` is working memory of kLaneCount * kMostColumnRows floats for each token, in
// cache lines.
using MultiplyColumns = void (*)(const StoredColumns& w, int64_t row, const float* x,
                                 int64_t x_stride, float* lanes, const TileResults& results);

inline constexpr int kMostTileTokens = 6;
inline constexpr int kMostFusedTokens = 4;

// A format's own kernels, of rows or of columns; fused ones for as many tokens as they are worth
// it.
struct FormatKernels {
  FillTile fill = nullptr;
  MultiplyRows multiply_rows[kMostFusedTokens] = {};  // [n_tokens - 1]
  FillColumns fill_columns = nullptr;
  MultiplyColumns multiply_columns[kMostFusedTokens] = {};
};

struct ExactKernels {
  int tile_tokens = 0;                               // tokens of the largest tile
  MultiplyTile multiply_tile[kMostTileTokens] = {};  // [n_tokens - 1]
  FormatKernels formats[kFormatCount] = {};
};

const ExactKernels& exact_kernels_avx2();
const ExactKernels& exact_kernels_avx512();

// Parts of the two above, each by a file of its own.
void add_plain_kernels_avx2(ExactKernels& kernels);   // F32, F16, BF16, FP8
void add_fp4_kernels_avx2(ExactKernels& kernels);     // MXFP4, NVFP4, split and in blocks
void add_ggml_kernels_avx2(ExactKernels& kernels);    // the other ggml blocks of 32
void add_kquant_kernels_avx2(ExactKernels& kernels);  // ggml blocks of 256
void add_int4_kernels_avx2(ExactKernels& kernels);    // GPTQ, AWQ
void add_plain_kernels_avx512(ExactKernels& kernels);
void add_fp4_kernels_avx512(ExactKernels& kernels);
void add_ggml_kernels_avx512(ExactKernels& kernels);
void add_kquant_kernels_avx512(ExactKernels& kernels);
void add_int4_kernels_avx512(ExactKernels& kernels);

// Every code of an 8-bit scale as float32.
struct ScaleTable {
  float of[256];
};
extern const ScaleTable kE4m3Scales;
extern const ScaleTable kUe4m3Scales;
extern const ScaleTable kE8m0Scales;

}  // namespace penstock
