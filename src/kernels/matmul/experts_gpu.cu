// The routed experts of a step on a GPU: the contract is experts_gpu.h's.
#include "kernels/gpu/numbers.cuh"
#include "kernels/gpu/tile_product.cuh"

namespace penstock::gpu {

using Group = GpuExpertGroup;

// A layer's experts: where each is in the pool of slots, and the factors of its three matrices.
struct Experts {
  const uint8_t* pool;
  uint64_t slot_bytes;
  const int32_t* slots;    // [n_experts]
  const float* factors;    // [n_experts, 3]: gate, up, down
  __device__ Source matrix(int expert, int which, GpuExpertPart part, GpuMatrixShape shape) const {
    const uint8_t* const slot = pool + uint64_t(slots[expert]) * slot_bytes;
    shape.scale = factors[3 * expert + which];
    return {slot + part.data, shape.scale_row_bytes > 0 ? slot + part.scales : nullptr, shape};
  }
};

// act[row] = swiglu(Wg x, Wu x) of the group's rows, as bf16.  Grid: [row tiles of expert_dim, groups].
template <class Codec, int TILES>
__device__ inline void gate_up(const Experts& experts, GpuExpertPart gate, GpuExpertPart up, GpuMatrixShape shape,
                               const Group* groups, const int32_t* n_groups, const int32_t* token_of, const uint16_t* x,
                               int64_t x_stride, uint16_t* act, int64_t act_stride) {
  wait_for_turn();
  if (blockIdx.y >= *n_groups) return;
  __shared__ WarpSums<TILES> shared;
  const Group group = groups[blockIdx.y];
  const Source gate_weights = experts.matrix(group.expert, 0, gate, shape);
  const Source up_weights = experts.matrix(group.expert, 1, up, shape);
  const int first_row = blockIdx.x * kTileRows;
  const Tokens tokens = {x, x_stride, token_of + group.first_row, group.n_rows};
  constexpr int kValues = TILES * kTileTokens * kTileRows;
  constexpr int kPerThread = (kValues + kThreads - 1) / kThreads;
  for (int first_token = 0; first_token < group.n_rows; first_token += TILES * kTileTokens) {
    float gates[kPerThread];
    // One copy of the product in the program, run twice: these kernels are many, and each is large.
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      const Source weights = which == 0 ? gate_weights : up_weights;
      const float factor = Codec::kUnit * weights.shape.scale;
      float sums[TILES][4];
      multiply_warp<Codec, TILES>(weights, first_row, tokens, first_token, sums);
      share_sums<TILES>(sums, shared);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kPerThread; ++k) {
        const int i = threadIdx.x + k * kThreads;
        if (i >= kValues) break;
        const float value = sum_of<TILES>(shared, i / kTileRows, i % kTileRows) * factor;
        const int row = first_row + i % kTileRows;
        const int token = first_token + i / kTileRows;
        if (which == 0) {
          gates[k] = value;
        } else if (row < shape.rows && token < group.n_rows) {
          act[(group.first_row + token) * act_stride + row] = bf16_of(swiglu(gates[k], value));
        }
      }
      __syncthreads();
    }
  }
}

// y[row] = Wd act of the group's rows.  Grid: [row tiles of hidden, groups].
template <class Codec, int TILES>
__device__ inline void down(const Experts& experts, GpuExpertPart part, GpuMatrixShape shape, const Group* groups,
                            const int32_t* n_groups, const uint16_t* act, int64_t act_stride, float* y, int64_t y_stride) {
  wait_for_turn();
  if (blockIdx.y >= *n_groups) return;
  __shared__ WarpSums<TILES> shared;
  const Group group = groups[blockIdx.y];
  const Source weights = experts.matrix(group.expert, 2, part, shape);
  const int first_row = blockIdx.x * kTileRows;
  const Tokens tokens = {act + group.first_row * act_stride, act_stride, nullptr, group.n_rows};
  for (int first_token = 0; first_token < group.n_rows; first_token += TILES * kTileTokens) {
    float sums[TILES][4];
    multiply_warp<Codec, TILES>(weights, first_row, tokens, first_token, sums);
    share_sums<TILES>(sums, shared);
    __syncthreads();
    for (int i = threadIdx.x; i < TILES * kTileTokens * kTileRows; i += kThreads) {
      const int row = first_row + i % kTileRows;
      const int token = first_token + i / kTileRows;
      if (row >= shape.rows || token >= group.n_rows) continue;
      y[(group.first_row + token) * y_stride + row] =
          sum_of<TILES>(shared, i / kTileRows, i % kTileRows) * (Codec::kUnit * weights.shape.scale);
    }
    __syncthreads();
  }
}

// x[t] += sum over k of weight[t, k] * y[row_of[t, k]], the heaviest first.  Grid: [tokens].
__device__ inline void combine(const float* y, int64_t y_stride, const int32_t* row_of, const float* weights, int top_k,
                               float* x, int64_t x_stride, int cols) {
  wait_for_turn();
  const int64_t token = blockIdx.x;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    float sum = 0;
    for (int k = 0; k < top_k; ++k) {
      sum += weights[token * top_k + k] * y[row_of[token * top_k + k] * y_stride + col];
    }
    x[token * x_stride + col] += sum;
  }
}

}  // namespace penstock::gpu

using penstock::GpuExpertGroup;
using penstock::GpuExpertPart;
using penstock::GpuMatrixShape;

#define PENSTOCK_EXPERTS(FORMAT, CODEC, TILES)                                                                         \
  extern "C" __global__ void __launch_bounds__(penstock::gpu::kThreads) experts_gate_up_##FORMAT##_##TILES(            \
      const uint8_t* pool, uint64_t slot_bytes, const int32_t* slots, const float* factors, GpuExpertPart gate,        \
      GpuExpertPart up, GpuMatrixShape shape, const GpuExpertGroup* groups, const int32_t* n_groups,                   \
      const int32_t* token_of, const uint16_t* x, int64_t x_stride, uint16_t* act, int64_t act_stride) {               \
    penstock::gpu::gate_up<penstock::gpu::CODEC, TILES>({pool, slot_bytes, slots, factors}, gate, up, shape, groups,   \
                                                        n_groups, token_of, x, x_stride, act, act_stride);             \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(penstock::gpu::kThreads) experts_down_##FORMAT##_##TILES(               \
      const uint8_t* pool, uint64_t slot_bytes, const int32_t* slots, const float* factors, GpuExpertPart part,        \
      GpuMatrixShape shape, const GpuExpertGroup* groups, const int32_t* n_groups, const uint16_t* act,                \
      int64_t act_stride, float* y, int64_t y_stride) {                                                                \
    penstock::gpu::down<penstock::gpu::CODEC, TILES>({pool, slot_bytes, slots, factors}, part, shape, groups,          \
                                                     n_groups, act, act_stride, y, y_stride);                          \
  }
#define PENSTOCK_EXPERTS_OF(FORMAT, CODEC) PENSTOCK_EXPERTS(FORMAT, CODEC, 1) PENSTOCK_EXPERTS(FORMAT, CODEC, 8)

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
