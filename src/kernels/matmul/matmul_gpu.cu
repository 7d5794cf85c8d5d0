// y = W x on a GPU, for all formats that have a codec: the contract is matmul_gpu.h's.
#include "kernels/gpu/tile_product.cuh"

namespace penstock::gpu {

// Grid: [row tiles, token tiles of 8 * TILES].
template <class Codec, int TILES>
__device__ inline void matmul(const Source& w, const Tokens& tokens, const float* bias, float* y, int64_t y_stride, bool adds) {
  __shared__ WarpSums<TILES> shared;
  const int first_row = blockIdx.x * kTileRows;
  const int first_token = blockIdx.y * TILES * kTileTokens;
  // Weights are nobody's output: the first are fetched while what was queued before still runs.
  float sums[TILES][4];
  multiply_warp<Codec, TILES, kWarps, 2, /*WAITS=*/true>(w, first_row, tokens, first_token, threadIdx.x / 32, sums);
  share_sums<TILES>(sums, shared);
  __syncthreads();
  const float factor = Codec::kUnit * w.shape.scale;
  for (int i = threadIdx.x; i < TILES * kTileTokens * kTileRows; i += kThreads) {
    const int row = first_row + i % kTileRows;
    const int token = first_token + i / kTileRows;
    if (row >= w.shape.rows || token >= tokens.n) continue;
    float value = sum_of<TILES, kWarps>(shared, 0, i / kTileRows, i % kTileRows) * factor;
    if (bias != nullptr) value += bias[row];
    float* const to = y + token * y_stride + row;
    *to = adds ? *to + value : value;
  }
}

}  // namespace penstock::gpu

using penstock::GpuMatrixShape;

#define PENSTOCK_MATMUL(FORMAT, CODEC, TILES)                                                                      \
  extern "C" __global__ void __launch_bounds__(penstock::gpu::kThreads) matmul_##FORMAT##_##TILES(                 \
      const uint8_t* data, const uint8_t* scales, GpuMatrixShape shape, const uint16_t* x, int64_t x_stride,       \
      int32_t n_tokens, const float* bias, float* y, int64_t y_stride, int32_t adds) {                             \
    penstock::gpu::matmul<penstock::gpu::CODEC, TILES>({data, scales, shape}, {x, x_stride, nullptr, n_tokens},    \
                                                       bias, y, y_stride, adds != 0);                              \
  }
#define PENSTOCK_MATMULS(FORMAT, CODEC) PENSTOCK_MATMUL(FORMAT, CODEC, 1) PENSTOCK_MATMUL(FORMAT, CODEC, 8)

PENSTOCK_MATMULS(f32, F32Codec)
PENSTOCK_MATMULS(f16, F16Codec)
PENSTOCK_MATMULS(bf16, Bf16Codec)
PENSTOCK_MATMULS(q4_0, Q4_0Codec)
PENSTOCK_MATMULS(q4_1, Q4_1Codec)
PENSTOCK_MATMULS(q8_0, Q8_0Codec)
PENSTOCK_MATMULS(q4_k, Q4_KCodec)
PENSTOCK_MATMULS(q6_k, Q6_KCodec)
PENSTOCK_MATMULS(nvfp4, Nvfp4Codec)
PENSTOCK_MATMULS(mxfp4, Mxfp4Codec)
PENSTOCK_MATMULS(fp8, Fp8Codec)
