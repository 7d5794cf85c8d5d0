// The product every GPU matmul is made of: 16 rows of a stored matrix times up to 64 tokens, on tensor cores. The order of each
// sum is fixed by the matrix alone, so a token's result does not depend on its neighbours, their number or the launch.
#pragma once

#include <type_traits>

#include "kernels/gpu/codecs.cuh"
#include "kernels/gpu/numbers.cuh"

namespace penstock::gpu {

constexpr int kTileRows = 16;    // of weights, which a thread block works on
constexpr int kTileTokens = 8;   // that one tensor core instruction takes
constexpr int kWarps = 8;        // of a thread block
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

// COLS numbers of a token from column `col`, as pairs; 0 behind the row's end. WHOLE: there is either all of them or nothing.
template <int COLS, bool WHOLE>
__device__ inline void load_token(const uint16_t* row, int col, int cols, uint32_t (&pairs)[COLS / 2]) {
  if (WHOLE ? col < cols : col + COLS <= cols) {
    load_aligned(reinterpret_cast<const uint8_t*>(row + col), pairs);
    return;
  }
#pragma unroll
  for (int i = 0; i < COLS / 2; ++i) {
    if constexpr (WHOLE) {
      pairs[i] = 0;
      continue;
    }
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

// Pairs of the weights that one lane multiplies at a time: kCols columns of two rows.
template <class Codec>
struct LaneWeights {
  typename Codec::Raw row0, row1;

  __device__ void load(const Source& w, int first_row, int second_row, int col) {
    row0 = Codec::load(w, first_row, col);
    row1 = Codec::load(w, second_row, col);
  }
};

// Adds the products of one lane's columns, [col, col + kCols), to the sums of TILES tiles, of which n_tiles have tokens. All
// lanes of a warp come here together: the instruction needs them. A lane behind the row's end multiplies zeros.
template <class Codec, int TILES>
__device__ inline void multiply_columns(const LaneWeights<Codec>& weights, int col, int cols, const uint16_t* const (&x)[TILES],
                                        int n_tiles, float (&sums)[TILES][4]) {
  constexpr int kPairs = Codec::kCols / 2;
  uint32_t a0[kPairs], a1[kPairs];
  if (col < cols) {
    Codec::unpack(weights.row0, a0);
    Codec::unpack(weights.row1, a1);
  } else {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) a0[i] = a1[i] = 0;
  }
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    if (tile >= n_tiles) break;
    uint32_t b[kPairs];
    load_token<Codec::kCols, std::is_same_v<Codec, typename Codec::Whole>>(x[tile], col, cols, b);
    if constexpr (Codec::kSplitsNibbles) split_pairs(b);
#pragma unroll
    for (int i = 0; i < kPairs; i += 2) {
      multiply_add(sums[tile], a0[i], a1[i], a0[i + 1], a1[i + 1], b[i], b[i + 1]);
    }
  }
}

// A warp's part of 16 rows times 8 * TILES tokens: of the columns, it is `part` of SPLIT. Each four lanes of a warp (lane % 4)
// take kCols columns side by side of two rows (lane / 4 and 8 more) and the same columns of token lane / 4: which of a tensor
// core's columns they are does not matter as long as weights and tokens agree.
// sums[tile]: rows lane / 4 (0, 1) and 8 more (2, 3), tokens 8 tile + 2 (lane % 4) (0, 2) and one more (1, 3)
// With one tile a lane has AHEAD steps' loads on their way at a time: it is them that few tokens wait for. WAITS: the tokens
// are there once it is the kernel's turn, for which this waits; the first weights are on their way by then.
template <class Codec, int TILES, int SPLIT, int AHEAD, bool WAITS>
__device__ inline void multiply_part(const Source& w, int first_row, const Tokens& tokens, int first_token, int part,
                                     float (&sums)[TILES][4]) {
  constexpr int kStep = SPLIT * 4 * Codec::kCols;
  const int lane = threadIdx.x % 32;
  const int last_row = w.shape.rows - 1;
  const int row0 = min(first_row + lane / 4, last_row);
  const int row1 = min(first_row + lane / 4 + 8, last_row);
  const int cols = w.shape.cols;
  const int n_tiles = min(TILES, (tokens.n - first_token + kTileTokens - 1) / kTileTokens);
  const uint16_t* x[TILES];
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    x[tile] = tokens.row(first_token + tile * kTileTokens + lane / 4);
#pragma unroll
    for (float& sum : sums[tile]) sum = 0;
  }
  const int first_col = (part * 4 + lane % 4) * Codec::kCols;
  const int n_steps = (cols - part * 4 * Codec::kCols + kStep - 1) / kStep;
  if constexpr (TILES == 1) {
    constexpr int kWords = 2 * sizeof(typename Codec::Raw) / 4;
    constexpr int kMostWords = 64;  // of a lane's registers
    constexpr int kAhead = AHEAD * kWords <= kMostWords ? AHEAD : kMostWords / kWords;
    if (WAITS && n_steps <= 0) wait_for_turn();
    for (int step = 0; step < n_steps; step += kAhead) {
      LaneWeights<Codec> weights[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int col = first_col + (step + i) * kStep;
        if (col < cols) weights[i].load(w, row0, row1, col);
      }
      if (WAITS && step == 0) wait_for_turn();
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (step + i >= n_steps) break;
        multiply_columns<Codec, TILES>(weights[i], first_col + (step + i) * kStep, cols, x, n_tiles, sums);
      }
    }
  } else {
    // Many: the next columns are fetched while these are multiplied.
    LaneWeights<Codec> next;
    if (first_col < cols) next.load(w, row0, row1, first_col);
    if (WAITS) wait_for_turn();
    for (int step = 0; step < n_steps; ++step) {
      const LaneWeights<Codec> weights = next;
      const int col = first_col + step * kStep;
      if (col + kStep < cols) next.load(w, row0, row1, col + kStep);
      multiply_columns<Codec, TILES>(weights, col, cols, x, n_tiles, sums);
    }
  }
}

template <class Codec, int TILES, int SPLIT, int AHEAD, bool WAITS>
__device__ inline void multiply_warp(const Source& w, int first_row, const Tokens& tokens, int first_token, int part,
                                     float (&sums)[TILES][4]) {
  using Whole = typename Codec::Whole;
  if (Whole::is_whole(w)) {
    multiply_part<Whole, TILES, SPLIT, AHEAD, WAITS>(w, first_row, tokens, first_token, part, sums);
  } else if constexpr (!std::is_same_v<Codec, Whole>) {
    multiply_part<Codec, TILES, SPLIT, 1, WAITS>(w, first_row, tokens, first_token, part, sums);
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

// The sum of N warps, in their order.
template <int TILES, int N>
__device__ inline float sum_of(const WarpSums<TILES>& shared, int first_warp, int token, int row) {
  float sum = 0;
#pragma unroll
  for (int warp = first_warp; warp < first_warp + N; ++warp) sum += shared[warp][token][row];
  return sum;
}

}  // namespace penstock::gpu
