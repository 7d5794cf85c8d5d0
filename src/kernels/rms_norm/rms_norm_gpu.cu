// y = x / rms(x) * weight on a GPU: the contract is rms_norm_gpu.h's.
#include "kernels/gpu/numbers.cuh"

using namespace penstock::gpu;

// Grid: [rows]. `from` null: row i of y is of row i of x. y32 may be null.
extern "C" __global__ void rms_norm(const float* x, int64_t x_stride, const int32_t* from, const float* weight, float eps,
                                    int32_t cols, uint16_t* y16, int64_t y16_stride, float* y32, int64_t y32_stride) {
  penstock::gpu::wait_for_turn();
  __shared__ float shared[32];
  const int64_t row = blockIdx.x;
  const float* const in = x + (from == nullptr ? row : from[row]) * x_stride;
  float sum = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += in[i] * in[i];
  const float factor = rsqrtf(sum_of_block(sum, shared) / float(cols) + eps);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    const float value = in[i] * factor * weight[i];
    y16[row * y16_stride + i] = bf16_of(value);
    if (y32 != nullptr) y32[row * y32_stride + i] = value;
  }
}
