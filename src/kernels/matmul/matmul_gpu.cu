// y = W x on a GPU, for all formats that have a codec: the contract is matmul_gpu.h's.
#include "kernels/gpu/few_tokens.cuh"
#include "kernels/gpu/tile_product.cuh"

namespace penstock::gpu {

// What is made of the products of a thread block.
struct Output {
  const float* bias;
  float* y;
  int64_t y_stride;
  bool adds;

  template <int TILES>
  __device__ void write(const WarpSums<TILES>& shared, int first_row, int n_rows, int first_token, int n_tokens, float factor) const {
    for (int i = threadIdx.x; i < TILES * kTileTokens * kTileRows; i += kThreads) {
      const int row = first_row + i % kTileRows;
      const int token = first_token + i / kTileRows;
      if (row >= n_rows || token >= n_tokens) continue;
      float value = sum_of<TILES, kWarps>(shared, 0, i / kTileRows, i % kTileRows) * factor;
      if (bias != nullptr) value += bias[row];
      float* const to = y + token * y_stride + row;
      *to = adds ? *to + value : value;
    }
  }
};

// Grid: [row tiles, token tiles of 8 * TILES].
template <class Codec, int TILES>
__device__ inline void matmul(const Source& w, const Tokens& tokens, const Output& output) {
  __shared__ WarpSums<TILES> shared;
  const int first_row = blockIdx.x * kTileRows;
  const int first_token = blockIdx.y * TILES * kTileTokens;
  // Weights are nobody's output: the first are fetched while what was queued before still runs.
  float sums[TILES][4];
  multiply_warp<Codec, TILES, kWarps, 2, /*WAITS=*/true>(w, first_row, tokens, first_token, threadIdx.x / 32, sums);
  share_sums<TILES>(sums, shared);
  __syncthreads();
  output.write<TILES>(shared, first_row, w.shape.rows, first_token, tokens.n, Codec::kUnit * w.shape.scale);
}

// The same for up to 8 tokens and whole rows.  Grid: [row tiles].
template <class Codec>
__device__ inline void matmul_few(const Source& w, const FewTokens& tokens, const Output& output) {
  extern __shared__ uint4 staged[];
  __shared__ WarpSums<1> shared;
  const int first_row = blockIdx.x * kTileRows;
  FewProduct<typename Codec::Whole, kWarps, kGpuStagedRun, /*WORDS=*/32> product;
  product.begin(w, first_row, threadIdx.x / 32);
  multiply_block</*NORMS=*/true, /*WAITS=*/true>(product, tokens, w.shape.cols, reinterpret_cast<uint16_t*>(staged));
  share_sums<1>(product.sums, shared);
  __syncthreads();
  output.write<1>(shared, first_row, w.shape.rows, 0, tokens.n, Codec::kUnit * w.shape.scale);
}

}  // namespace penstock::gpu

using penstock::GpuMatrixShape;

#define PENSTOCK_MATMULS(FORMAT, CODEC)                                                                             \
  extern "C" __global__ void __launch_bounds__(penstock::gpu::kThreads) matmul_##FORMAT(                            \
      const uint8_t* data, const uint8_t* scales, GpuMatrixShape shape, const uint16_t* x, int64_t x_stride,        \
      int32_t n_tokens, const float* bias, float* y, int64_t y_stride, int32_t adds) {                              \
    penstock::gpu::matmul<penstock::gpu::CODEC, penstock::kGpuManyTiles>({data, scales, shape}, {x, x_stride, nullptr, n_tokens}, \
                                                   {bias, y, y_stride, adds != 0});                                 \
  }                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(penstock::gpu::kThreads, 3) matmul_few_##FORMAT(                     \
      const uint8_t* data, const uint8_t* scales, GpuMatrixShape shape, const uint16_t* x, int64_t x_stride,        \
      int32_t n_tokens, const float* bias, float* y, int64_t y_stride, int32_t adds, const float* stream,           \
      int64_t stream_stride, const float* norm, float eps) {                                                        \
    penstock::gpu::matmul_few<penstock::gpu::CODEC>({data, scales, shape},                                          \
                                                    {x, x_stride, nullptr, n_tokens, stream, stream_stride, norm, eps}, \
                                                    {bias, y, y_stride, adds != 0});                                \
  }

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
