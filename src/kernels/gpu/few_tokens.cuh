// The product of up to eight tokens, with matrices whose rows are whole (codecs.cuh): a warp streams its part of 16 rows through
// registers, several steps ahead of what it multiplies, and finds the tokens in shared memory. The sums are those of
// tile_product.cuh, bit for bit.
#pragma once

#include "kernels/gpu/tile_product.cuh"
#include "kernels/gpu/tile_shape.h"
#include "kernels/rms_norm/norm.cuh"

namespace penstock::gpu {

// Where number i of a token is put among its 8, for codecs whose pairs are (i, i + 4).
template <bool SPLITS>
__device__ inline int place_of(int i) {
  return SPLITS ? (i & ~7) | (i & 3) << 1 | (i >> 2 & 1) : i;
}

// What few tokens are: rows of bf16, or rows of a float32 stream that are normed first.
struct FewTokens {
  const uint16_t* x;     // null: normed ones
  int64_t stride;
  const int32_t* of;     // as in Tokens
  int n;
  const float* stream;
  int64_t stream_stride;
  const float* norm;     // weights
  float eps;

  __device__ const uint16_t* row(int i) const { return x + int64_t(of == nullptr ? i : of[i]) * stride; }
  __device__ const float* stream_row(int i) const { return stream + int64_t(i) * stream_stride; }
};

// Columns [first, first + width) of the tokens, zeros behind their end. By N_THREADS threads, of which this is the `thread`th.
template <bool SPLITS, int N_THREADS>
__device__ inline void stage_rows(const FewTokens& tokens, int first, int width, int cols, uint16_t* memory, int thread) {
  for (int t = 0; t < tokens.n; ++t) {
    const uint16_t* const row = tokens.row(t);
    uint16_t* const to = memory + t * (width + kGpuStagedGap);
#pragma unroll 4
    for (int i = 8 * thread; i < width; i += 8 * N_THREADS) {
      // Whole matrices have whole groups of 8 columns.
      uint32_t pairs[4] = {};
      if (first + i < cols) load_aligned(reinterpret_cast<const uint8_t*>(row + first + i), pairs);
      if constexpr (SPLITS) split_pairs(pairs);
      *reinterpret_cast<uint4*>(to + i) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }
}

// The norm's weights that a thread keeps while it waits for its turn: those of the first columns.
constexpr int kNormKept = 8;
struct NormWeights {
  float kept[kNormKept];
  __device__ void fetch(const float* weights, int cols) {
#pragma unroll
    for (int k = 0; k < kNormKept; ++k) {
      const int i = threadIdx.x + k * kNormThreads;
      kept[k] = i < cols ? weights[i] : 0;
    }
  }
};

// The same of the stream's rows, normed. By kNormThreads threads.
template <bool SPLITS>
__device__ inline void stage_normed(const FewTokens& tokens, const NormWeights& weights, const float* factors, int first,
                                    int width, int cols, uint16_t* memory) {
  for (int t = 0; t < tokens.n; ++t) {
    const float* const row = tokens.stream_row(t);
    const float factor = factors[t];
    uint16_t* const to = memory + t * (width + kGpuStagedGap);
    const auto put = [&](int i, float weight) {
      const int col = first + i;
      if (i < width) to[place_of<SPLITS>(i)] = col < cols ? bf16_of(normed(row[col], factor, weight)) : 0;
    };
    if (first == 0) {
#pragma unroll
      for (int k = 0; k < kNormKept; ++k) put(threadIdx.x + k * kNormThreads, weights.kept[k]);
    }
    for (int i = threadIdx.x + (first == 0 ? kNormKept * kNormThreads : 0); i < width; i += kNormThreads) {
      put(i, first + i < cols ? tokens.norm[first + i] : 0);
    }
  }
}

// As many steps as are on their way at a time: at most WORDS words of a lane's registers, and whole numbers of them in a staged run.
template <class Codec, int SPLIT, int RUN, int WORDS>
constexpr int steps_ahead() {
  constexpr int kWords = 2 * sizeof(typename Codec::Raw) / 4;
  constexpr int kSteps = RUN / (SPLIT * 4 * Codec::kCols);
  int ahead = 8;
  while (ahead > 1 && (ahead * kWords > WORDS || kSteps % ahead != 0)) ahead /= 2;
  return ahead;
}

// A warp's part of 16 rows times up to 8 tokens, as multiply_part of tile_product.cuh. First begin(), which has the first
// weights fetched; then multiply() for each staged run of columns, in their order.
template <class Codec, int SPLIT, int RUN, int WORDS>
class FewProduct {
 public:
  static constexpr int kStep = SPLIT * 4 * Codec::kCols;
  static constexpr int kAhead = steps_ahead<Codec, SPLIT, RUN, WORDS>();
  static_assert(RUN % (kAhead * kStep) == 0);
  float sums[1][4] = {};

  __device__ void begin(const Source& w, int first_row, int part) {
    w_ = w;
    const int lane = threadIdx.x % 32;
    const int last_row = w.shape.rows - 1;
    row0_ = min(first_row + lane / 4, last_row);
    row1_ = min(first_row + lane / 4 + 8, last_row);
    first_col_ = (part * 4 + lane % 4) * Codec::kCols;
    n_steps_ = (w.shape.cols - part * 4 * Codec::kCols + kStep - 1) / kStep;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      ring_[i] = {};  // a lane that never has columns multiplies zeros
      load(ring_[i], i);
    }
  }

  // Columns [first, end), of which `first` is a multiple of RUN, staged at `memory`, one token `stride` numbers behind the last.
  __device__ void multiply(const uint16_t* memory, int stride, int n_tokens, int first, int end) {
    const int token = threadIdx.x % 32 / 4;
    const bool has_token = token < n_tokens;
    const uint16_t* const x = memory + (has_token ? token : 0) * stride + first_col_ - first;
    const int end_step = min(n_steps_, end / kStep);
    for (int step = first / kStep; step < end_step; step += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (step + i >= end_step) break;
        multiply_step(ring_[i], x + (step + i) * kStep, has_token);
        load(ring_[i], step + i + kAhead);
      }
    }
  }

 private:
  static constexpr int kPairs = Codec::kCols / 2;
  static_assert(std::is_same_v<Codec, typename Codec::Whole>);

  __device__ void load(LaneWeights<Codec>& to, int step) const {
    // Behind the end what was there stays: its tokens are zeros.
    const int col = first_col_ + step * kStep;
    if (col < w_.shape.cols) to.load(w_, row0_, row1_, col);
  }

  __device__ void multiply_step(const LaneWeights<Codec>& weights, const uint16_t* x, bool has_token) {
    uint32_t a0[kPairs], a1[kPairs], b[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; i += 4) {
      uint4 four = make_uint4(0, 0, 0, 0);
      if (has_token) four = *reinterpret_cast<const uint4*>(x + 2 * i);
      b[i] = four.x, b[i + 1] = four.y, b[i + 2] = four.z, b[i + 3] = four.w;
    }
    Codec::unpack(weights.row0, a0);
    Codec::unpack(weights.row1, a1);
#pragma unroll
    for (int i = 0; i < kPairs; i += 2) multiply_add(sums[0], a0[i], a1[i], a0[i + 1], a1[i + 1], b[i], b[i + 1]);
  }

  Source w_;
  int row0_, row1_, first_col_, n_steps_;
  LaneWeights<Codec> ring_[kAhead];
};

// Stages the tokens a run at a time and multiplies them: all of a thread block. The first weights of a product that was begun
// before are on their way while this waits for its turn, if WAITS. Without NORMS, tokens are never normed.
template <bool NORMS, bool WAITS, class Codec, int SPLIT, int WORDS>
__device__ inline void multiply_block(FewProduct<Codec, SPLIT, kGpuStagedRun, WORDS>& product, const FewTokens& tokens, int cols,
                                      uint16_t* memory) {
  __shared__ float norm_sums[NORMS ? kTileTokens : 1][kNormWarps], factors[NORMS ? kTileTokens : 1];
  const bool norms = NORMS && tokens.x == nullptr;
  NormWeights weights;
  if (norms) weights.fetch(tokens.norm, cols);
  if (WAITS) wait_for_turn();
  if (norms) norm_factors([&](int i) { return tokens.stream_row(i); }, tokens.n, cols, tokens.eps, norm_sums, factors);
  const int width = gpu_staged_cols(tokens.n, cols);
  for (int first = 0; first < cols; first += width) {
    if (first > 0) __syncthreads();
    if (norms) {
      stage_normed<Codec::kSplitsNibbles>(tokens, weights, factors, first, width, cols, memory);
    } else {
      stage_rows<Codec::kSplitsNibbles, kThreads>(tokens, first, width, cols, memory, threadIdx.x);
    }
    __syncthreads();
    product.multiply(memory, width + kGpuStagedGap, tokens.n, first, first + width);
  }
}

}  // namespace penstock::gpu
