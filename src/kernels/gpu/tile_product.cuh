// The product every GPU matmul is made of: 16 rows of a stored matrix times up to 64 tokens, on tensor cores. The order of each
// sum is fixed by the matrix alone, so a token's result does not depend on its neighbours, their number or the launch.
#pragma once

#include "kernels/gpu/codecs.cuh"
#include "kernels/gpu/numbers.cuh"

namespace penstock::gpu {

constexpr int kTileRows = 16;    // of weights, which a thread block works on
constexpr int kTileTokens = 8;   // that one tensor core instruction takes
constexpr int kWarps = 8;        // of a thread block: each has its share of the columns
constexpr int kThreads = 32 * kWarps;

// Rows of bf16: row i of the product's tokens is row `of[i]`, or i itself where `of` is null. Rows begin on 16 bytes.
struct Tokens {
  const uint16_t* x;
  int64_t stride;
  const int32_t* of;
  int n;
  __device__ const uint16_t* row(int i) const {
    i = min(i, n - 1);
    return x + int64_t(of == nullptr ? i : of[i]) * stride;
  }
};

__device__ inline void multiply_add(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// COLS numbers of a token from column `col`, as pairs; 0 behind the row's end.
template <int COLS>
__device__ inline void load_token(const uint16_t* row, int col, int cols, uint32_t (&pairs)[COLS / 2]) {
  if (col + COLS <= cols) {
    load_aligned(reinterpret_cast<const uint8_t*>(row + col), pairs);
    return;
  }
#pragma unroll
  for (int i = 0; i < COLS / 2; ++i) {
    const uint32_t low = col + 2 * i < cols ? row[col + 2 * i] : 0;
    const uint32_t high = col + 2 * i + 1 < cols ? row[col + 2 * i + 1] : 0;
    pairs[i] = low | high << 16;
  }
}

// Pairs (0, 1) (2, 3) (4, 5) (6, 7) of each 8 numbers become (0, 4) (1, 5) (2, 6) (3, 7).
template <int PAIRS>
__device__ inline void split_pairs(uint32_t (&pairs)[PAIRS]) {
#pragma unroll
  for (int i = 0; i < PAIRS; i += 4) {
    const uint32_t a = pairs[i], b = pairs[i + 1], c = pairs[i + 2], d = pairs[i + 3];
    pairs[i] = __byte_perm(a, c, 0x5410), pairs[i + 1] = __byte_perm(a, c, 0x7632);
    pairs[i + 2] = __byte_perm(b, d, 0x5410), pairs[i + 3] = __byte_perm(b, d, 0x7632);
  }
}

// Has the thread block's rows on their way into the L2 cache.
__device__ inline void prefetch_rows(const Source& w, int first_row) {
  constexpr int kLine = 128;
  const int n_rows = min(kTileRows, w.shape.rows - first_row);
  const uint8_t* const begin = w.data + size_t(first_row) * w.shape.row_bytes;
  const size_t bytes = size_t(n_rows) * w.shape.row_bytes;
  for (size_t at = threadIdx.x * kLine; at < bytes; at += kThreads * kLine) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(begin + at));
  }
}

// This warp's part of 16 rows times 8 * TILES tokens. Each four lanes of a warp (lane % 4) take kCols columns side by side of
// two rows (lane / 4 and 8 more) and the same columns of token lane / 4: which of a tensor core's columns they are does not
// matter as long as weights and tokens agree.
// sums[tile]: rows lane / 4 (0, 1) and 8 more (2, 3), tokens 8 tile + 2 (lane % 4) (0, 2) and one more (1, 3)
template <class Codec, int TILES>
__device__ inline void multiply_warp(const Source& w, int first_row, const Tokens& tokens, int first_token, float (&sums)[TILES][4]) {
  constexpr int kCols = Codec::kCols;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int last_row = w.shape.rows - 1;
  const int row0 = min(first_row + lane / 4, last_row);
  const int row1 = min(first_row + lane / 4 + 8, last_row);
  const int n_tiles = min(TILES, (tokens.n - first_token + kTileTokens - 1) / kTileTokens);
  const uint16_t* x[TILES];
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    x[tile] = tokens.row(first_token + tile * kTileTokens + lane / 4);
#pragma unroll
    for (float& sum : sums[tile]) sum = 0;
  }
  constexpr int kStep = kWarps * 4 * kCols;
  int col = (warp * 4 + lane % 4) * kCols;
  // All lanes of a warp go on together: the instruction needs them. A lane behind the end multiplies zeros.
  const int n_steps = (w.shape.cols - warp * 4 * kCols + kStep - 1) / kStep;
  typename Codec::Raw next0, next1;
  if (n_steps > 0 && col < w.shape.cols) {
    next0 = Codec::load(w, row0, col);
    next1 = Codec::load(w, row1, col);
  }
  for (int step = 0; step < n_steps; ++step, col += kStep) {
    const bool is_there = col < w.shape.cols;
    const typename Codec::Raw raw0 = next0, raw1 = next1;
    if (col + kStep < w.shape.cols) {
      next0 = Codec::load(w, row0, col + kStep);
      next1 = Codec::load(w, row1, col + kStep);
    }
    uint32_t a0[kCols / 2], a1[kCols / 2];
    if (is_there) {
      Codec::unpack(raw0, a0);
      Codec::unpack(raw1, a1);
    } else {
#pragma unroll
      for (int i = 0; i < kCols / 2; ++i) a0[i] = a1[i] = 0;
    }
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      if (tile >= n_tiles) break;
      uint32_t b[kCols / 2];
      load_token<kCols>(x[tile], col, w.shape.cols, b);
      if constexpr (Codec::kSplitsNibbles) split_pairs(b);
#pragma unroll
      for (int i = 0; i < kCols / 2; i += 2) {
        multiply_add(sums[tile], a0[i], a1[i], a0[i + 1], a1[i + 1], b[i], b[i + 1]);
      }
    }
  }
}

template <int TILES>
using WarpSums = float[kWarps][TILES * kTileTokens][kTileRows];

// Gives the warps' parts to the thread block; who uses them waits for __syncthreads first.
template <int TILES>
__device__ inline void share_sums(const float (&sums)[TILES][4], WarpSums<TILES>& shared) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    const int token = tile * kTileTokens + 2 * (lane % 4);
    shared[warp][token][lane / 4] = sums[tile][0];
    shared[warp][token + 1][lane / 4] = sums[tile][1];
    shared[warp][token][lane / 4 + 8] = sums[tile][2];
    shared[warp][token + 1][lane / 4 + 8] = sums[tile][3];
  }
}

// The whole sum, in the order of the warps.
template <int TILES>
__device__ inline float sum_of(const WarpSums<TILES>& shared, int token, int row) {
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += shared[warp][token][row];
  return sum;
}

}  // namespace penstock::gpu
