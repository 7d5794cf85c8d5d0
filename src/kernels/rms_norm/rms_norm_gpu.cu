// y = x / rms(x) * weight on a GPU: the contract is rms_norm_gpu.h's.
#include "kernels/rms_norm/norm.cuh"

using namespace penstock::gpu;

// Grid: [rows]. `from` null: row i of y is of row i of x. y32 may be null.
extern "C" __global__ void __launch_bounds__(kNormThreads) rms_norm(const float* x, int64_t x_stride, const int32_t* from,
                                                                    const float* weight, float eps, int32_t cols, uint16_t* y16,
                                                                    int64_t y16_stride, float* y32, int64_t y32_stride) {
  __shared__ float sums[1][kNormWarps], factors[1];
  const int64_t row = blockIdx.x;
  wait_for_turn();
  const float* const in = x + (from == nullptr ? row : from[row]) * x_stride;
  norm_factors([&](int) { return in; }, 1, cols, eps, sums, factors);
#pragma unroll 8
  for (int i = threadIdx.x; i < cols; i += kNormThreads) {
    const float value = normed(in[i], factors[0], weight[i]);
    y16[row * y16_stride + i] = bf16_of(value);
    if (y32 != nullptr) y32[row * y32_stride + i] = value;
  }
}
