// y = x / rms(x) * weight on a GPU: the contract is rms_norm_gpu.h's.
#include "kernels/gpu/numbers.cuh"

using namespace penstock::gpu;

// Numbers that a thread keeps: more are read twice.
constexpr int kKept = 4;

// Grid: [rows]. `from` null: row i of y is of row i of x. y32 may be null.
extern "C" __global__ void __launch_bounds__(1024) rms_norm(const float* x, int64_t x_stride, const int32_t* from,
                                                            const float* weight, float eps, int32_t cols, uint16_t* y16,
                                                            int64_t y16_stride, float* y32, int64_t y32_stride) {
  __shared__ float shared[32];
  const int64_t row = blockIdx.x;
  float weights[kKept], kept[kKept];
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    weights[k] = i < cols ? weight[i] : 0;
  }
  wait_for_turn();
  const float* const in = x + (from == nullptr ? row : from[row]) * x_stride;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    kept[k] = i < cols ? in[i] : 0;
  }
#pragma unroll
  for (int k = 0; k < kKept; ++k) sum += kept[k] * kept[k];
  for (int i = threadIdx.x + kKept * blockDim.x; i < cols; i += blockDim.x) sum += in[i] * in[i];
  const float factor = rsqrtf(sum_of_block(sum, shared) / float(cols) + eps);
  const auto write = [&](int i, float number, float of_weight) {
    const float value = number * factor * of_weight;
    y16[row * y16_stride + i] = bf16_of(value);
    if (y32 != nullptr) y32[row * y32_stride + i] = value;
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i < cols) write(i, kept[k], weights[k]);
  }
  for (int i = threadIdx.x + kKept * blockDim.x; i < cols; i += blockDim.x) write(i, in[i], weight[i]);
}
