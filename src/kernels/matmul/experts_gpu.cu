// The routed experts of a step on a GPU: the contract is experts_gpu.h's.
#include "kernels/gpu/few_tokens.cuh"
#include "kernels/gpu/numbers.cuh"
#include "kernels/gpu/tile_product.cuh"
#include "kernels/gpu/tile_shape.h"

namespace penstock::gpu {

using Group = GpuExpertGroup;

// A layer's experts: where each is in the pool of slots, and the factors of its three matrices.
struct Experts {
  const uint8_t* pool;
  uint64_t slot_bytes;
  const float* factors;    // [n_experts, 3]: gate, up, down
  __device__ Source matrix(const Group& group, int which, GpuExpertPart part, GpuMatrixShape shape) const {
    const uint8_t* const slot = pool + uint64_t(group.slot) * slot_bytes;
    shape.scale = factors[3 * group.expert + which];
    return {slot + part.data, shape.scale_row_bytes > 0 ? slot + part.scales : nullptr, shape};
  }
};

constexpr int kTiles = kGpuManyTiles;
constexpr int kHalf = kWarps / 2;  // of the warps multiply the gate's rows, half up's

// Of a thread block's 16 rows.
struct GateAndUp {
  Source weights;  // this warp's
  float gate_factor, up_factor;

  __device__ GateAndUp(const Experts& experts, const Group& group, GpuExpertPart gate, GpuExpertPart up, GpuMatrixShape shape,
                       float unit) {
    const bool is_gate = threadIdx.x / 32 < kHalf;
    weights = experts.matrix(group, is_gate ? 0 : 1, {is_gate ? gate.data : up.data, is_gate ? gate.scales : up.scales}, shape);
    gate_factor = unit * experts.factors[3 * group.expert];
    up_factor = unit * experts.factors[3 * group.expert + 1];
  }

  template <int TILES>
  __device__ void write(const WarpSums<TILES>& shared, int first_row, const Group& group, int first_token, uint16_t* act,
                        int64_t act_stride) const {
    for (int i = threadIdx.x; i < TILES * kTileTokens * kTileRows; i += kThreads) {
      const int row = first_row + i % kTileRows;
      const int token = first_token + i / kTileRows;
      if (row >= weights.shape.rows || token >= group.n_rows) continue;
      const float gate_value = sum_of<TILES, kHalf>(shared, 0, i / kTileRows, i % kTileRows) * gate_factor;
      const float up_value = sum_of<TILES, kHalf>(shared, kHalf, i / kTileRows, i % kTileRows) * up_factor;
      act[(group.first_row + token) * act_stride + row] = bf16_of(swiglu(gate_value, up_value));
    }
  }
};

// act[row] = swiglu(Wg x, Wu x) of the group's rows, as bf16.  Grid: [row tiles of expert_dim, groups].
template <class Codec>
__device__ inline void gate_up(const Experts& experts, GpuExpertPart gate, GpuExpertPart up, GpuMatrixShape shape,
                               const Group* groups, const int32_t* n_groups, const int32_t* token_of, const uint16_t* x,
                               int64_t x_stride, uint16_t* act, int64_t act_stride) {
  wait_for_turn();
  const Group group = groups[blockIdx.y];  // on its way before it is known to be one
  if (blockIdx.y >= *n_groups) return;
  __shared__ WarpSums<kTiles> shared;
  const int first_row = blockIdx.x * kTileRows;
  const GateAndUp of(experts, group, gate, up, shape, Codec::kUnit);
  const Tokens tokens = {x, x_stride, token_of + group.first_row, group.n_rows};
  for (int first_token = 0; first_token < group.n_rows; first_token += kTiles * kTileTokens) {
    float sums[kTiles][4];
    multiply_warp<Codec, kTiles, kHalf, 1, /*WAITS=*/false>(of.weights, first_row, tokens, first_token, threadIdx.x / 32 % kHalf, sums);
    share_sums<kTiles>(sums, shared);
    __syncthreads();
    of.write<kTiles>(shared, first_row, group, first_token, act, act_stride);
    __syncthreads();
  }
}

// The same for up to 8 tokens and whole rows.
template <class Codec>
__device__ inline void gate_up_few(const Experts& experts, GpuExpertPart gate, GpuExpertPart up, GpuMatrixShape shape,
                                   const Group* groups, const int32_t* n_groups, const int32_t* token_of, const uint16_t* x,
                                   int64_t x_stride, uint16_t* act, int64_t act_stride) {
  extern __shared__ uint4 staged[];
  __shared__ WarpSums<1> shared;
  wait_for_turn();
  const Group group = groups[blockIdx.y];
  if (blockIdx.y >= *n_groups) return;
  const int first_row = blockIdx.x * kTileRows;
  const GateAndUp of(experts, group, gate, up, shape, Codec::kUnit);
  FewProduct<Codec, kHalf, kGpuStagedRun, /*WORDS=*/20> product;
  product.begin(of.weights, first_row, threadIdx.x / 32 % kHalf);
  const FewTokens tokens = {x, x_stride, token_of + group.first_row, group.n_rows};
  multiply_block</*NORMS=*/false, /*WAITS=*/false>(product, tokens, shape.cols, reinterpret_cast<uint16_t*>(staged));
  share_sums<1>(product.sums, shared);
  __syncthreads();
  of.write<1>(shared, first_row, group, 0, act, act_stride);
}

// y[row] = Wd act of the group's rows.  Grid: [row tiles of hidden / kWarps, groups]. A warp, a tile of rows: an expert is too
// narrow for more of them.
template <class Codec>
__device__ inline void down(const Experts& experts, GpuExpertPart part, GpuMatrixShape shape, const Group* groups,
                            const int32_t* n_groups, const uint16_t* act, int64_t act_stride, float* y, int64_t y_stride) {
  wait_for_turn();
  const Group group = groups[blockIdx.y];  // on its way before it is known to be one
  if (blockIdx.y >= *n_groups) return;
  const Source weights = experts.matrix(group, 2, part, shape);
  const int first_row = (blockIdx.x * kWarps + threadIdx.x / 32) * kTileRows;
  if (first_row >= shape.rows) return;
  const float factor = Codec::kUnit * weights.shape.scale;
  const int lane = threadIdx.x % 32;
  const Tokens tokens = {act + group.first_row * act_stride, act_stride, nullptr, group.n_rows};
  for (int first_token = 0; first_token < group.n_rows; first_token += kTiles * kTileTokens) {
    float sums[kTiles][4];
    multiply_warp<Codec, kTiles, 1, 1, /*WAITS=*/false>(weights, first_row, tokens, first_token, 0, sums);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = first_token + tile * kTileTokens + 2 * (lane % 4) + i % 2;
        const int row = first_row + lane / 4 + i / 2 * 8;
        if (row < shape.rows && token < group.n_rows) y[(group.first_row + token) * y_stride + row] = sums[tile][i] * factor;
      }
    }
  }
}

// One group's outputs of 16 rows, by a warp, kGpuWarpTokens tokens at a time: outputs[group.first_row + token][row].
template <class Codec>
__device__ inline void down_group(const Source& w, const Group& group, int first_row, const uint16_t* act, int64_t act_stride,
                                  uint16_t* staged, float (*outputs)[kTileRows]) {
  const int lane = threadIdx.x % 32;
  const float factor = Codec::kUnit * w.shape.scale;
  for (int first_token = 0; first_token < group.n_rows; first_token += kGpuWarpTokens) {
    FewProduct<Codec, 1, kGpuWarpStagedRun, /*WORDS=*/20> product;
    product.begin(w, first_row, 0);
    const int first_of = group.first_row + first_token;
    const FewTokens tokens = {act + first_of * act_stride, act_stride, nullptr, min(kGpuWarpTokens, group.n_rows - first_token)};
    const int width = gpu_warp_staged_cols(tokens.n, w.shape.cols);
    for (int first = 0; first < w.shape.cols; first += width) {
      __syncwarp();
      stage_rows<Codec::kSplitsNibbles, 32>(tokens, first, width, w.shape.cols, staged, lane);
      __syncwarp();
      product.multiply(staged, width + kGpuStagedGap, tokens.n, first, first + width);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 2 * (lane % 4) + i % 2;
      if (token < tokens.n) outputs[first_of + token][lane / 4 + i / 2 * 8] = product.sums[0][i] * factor;
    }
  }
}

// down and combine at once, for few assignments and whole rows: x[t] += sum over k of weight[t, k] * Wd act[row_of[t, k]].
// Grid: [row tiles of hidden]. A warp multiplies every eighth group; the sums are those of the two kernels, bit for bit.
template <class Codec>
__device__ inline void down_combine(const Experts& experts, GpuExpertPart part, GpuMatrixShape shape, const Group* groups,
                                    const int32_t* n_groups, const int32_t* row_of, const float* weights, int top_k,
                                    int n_tokens, const uint16_t* act, int64_t act_stride, float* x, int64_t x_stride) {
  __shared__ float outputs[kGpuMostCombined][kTileRows];  // of each assignment's row
  __shared__ uint4 staged[kWarps][kGpuWarpStagedNumbers / 8];
  wait_for_turn();
  const int warp = threadIdx.x / 32;
  Group group = groups[warp];  // on its way before it is known to be one
  const int n = *n_groups;
  const int first_row = blockIdx.x * kTileRows;
  for (int g = warp; g < n; g += kWarps) {
    if (g != warp) group = groups[g];
    down_group<Codec>(experts.matrix(group, 2, part, shape), group, first_row, act, act_stride,
                      reinterpret_cast<uint16_t*>(staged[warp]), outputs);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n_tokens * kTileRows; i += kThreads) {
    const int token = i / kTileRows, row = first_row + i % kTileRows;
    if (row >= shape.rows) continue;
    float sum = 0;
    for (int k = 0; k < top_k; ++k) sum += weights[token * top_k + k] * outputs[row_of[token * top_k + k]][i % kTileRows];
    x[token * x_stride + row] += sum;
  }
}

// x[t] += sum over k of weight[t, k] * y[row_of[t, k]], the heaviest first.  Grid: [columns / threads, tokens].
__device__ inline void combine(const float* y, int64_t y_stride, const int32_t* row_of, const float* weights, int top_k,
                               float* x, int64_t x_stride, int cols) {
  wait_for_turn();
  const int64_t token = blockIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  float sum = 0;
#pragma unroll 8
  for (int k = 0; k < top_k; ++k) {
    sum += weights[token * top_k + k] * y[row_of[token * top_k + k] * y_stride + col];
  }
  x[token * x_stride + col] += sum;
}

}  // namespace penstock::gpu

using penstock::GpuExpertGroup;
using penstock::GpuExpertPart;
using penstock::GpuMatrixShape;

#define PENSTOCK_GATE_UP_ARGUMENTS                                                                                     \
  const uint8_t *pool, uint64_t slot_bytes, const float *factors, GpuExpertPart gate, GpuExpertPart up,                \
      GpuMatrixShape shape, const GpuExpertGroup *groups, const int32_t *n_groups, const int32_t *token_of,            \
      const uint16_t *x, int64_t x_stride, uint16_t *act, int64_t act_stride

#define PENSTOCK_EXPERTS_OF(FORMAT, CODEC)                                                                             \
  extern "C" __global__ void __launch_bounds__(penstock::gpu::kThreads)                                                \
      experts_gate_up_##FORMAT(PENSTOCK_GATE_UP_ARGUMENTS) {                                                           \
    penstock::gpu::gate_up<penstock::gpu::CODEC>({pool, slot_bytes, factors}, gate, up, shape, groups, n_groups,       \
                                                 token_of, x, x_stride, act, act_stride);                              \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(penstock::gpu::kThreads, 3)                                             \
      experts_gate_up_few_##FORMAT(PENSTOCK_GATE_UP_ARGUMENTS) {                                                       \
    penstock::gpu::gate_up_few<penstock::gpu::CODEC::Whole>({pool, slot_bytes, factors}, gate, up, shape, groups,      \
                                                            n_groups, token_of, x, x_stride, act, act_stride);         \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(penstock::gpu::kThreads) experts_down_##FORMAT(                         \
      const uint8_t* pool, uint64_t slot_bytes, const float* factors, GpuExpertPart part, GpuMatrixShape shape,        \
      const GpuExpertGroup* groups, const int32_t* n_groups, const uint16_t* act, int64_t act_stride, float* y,        \
      int64_t y_stride) {                                                                                              \
    penstock::gpu::down<penstock::gpu::CODEC>({pool, slot_bytes, factors}, part, shape, groups, n_groups, act,         \
                                              act_stride, y, y_stride);                                                \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(penstock::gpu::kThreads, 2) experts_down_combine_##FORMAT(              \
      const uint8_t* pool, uint64_t slot_bytes, const float* factors, GpuExpertPart part, GpuMatrixShape shape,        \
      const GpuExpertGroup* groups, const int32_t* n_groups, const int32_t* row_of, const float* weights,              \
      int32_t top_k, int32_t n_tokens, const uint16_t* act, int64_t act_stride, float* x, int64_t x_stride) {          \
    penstock::gpu::down_combine<penstock::gpu::CODEC::Whole>({pool, slot_bytes, factors}, part, shape, groups,         \
                                                             n_groups, row_of, weights, top_k, n_tokens, act,          \
                                                             act_stride, x, x_stride);                                 \
  }

PENSTOCK_EXPERTS_OF(f32, F32Codec)
PENSTOCK_EXPERTS_OF(f16, F16Codec)
PENSTOCK_EXPERTS_OF(bf16, Bf16Codec)
PENSTOCK_EXPERTS_OF(q4_0, Q4_0Codec)
PENSTOCK_EXPERTS_OF(q4_1, Q4_1Codec)
PENSTOCK_EXPERTS_OF(q8_0, Q8_0Codec)
PENSTOCK_EXPERTS_OF(q4_k, Q4_KCodec)
PENSTOCK_EXPERTS_OF(q6_k, Q6_KCodec)
PENSTOCK_EXPERTS_OF(nvfp4, Nvfp4Codec)
PENSTOCK_EXPERTS_OF(mxfp4, Mxfp4Codec)
PENSTOCK_EXPERTS_OF(fp8, Fp8Codec)

extern "C" __global__ void experts_combine(const float* y, int64_t y_stride, const int32_t* row_of, const float* weights,
                                           int32_t top_k, float* x, int64_t x_stride, int32_t cols) {
  penstock::gpu::combine(y, y_stride, row_of, weights, top_k, x, x_stride, cols);
}
