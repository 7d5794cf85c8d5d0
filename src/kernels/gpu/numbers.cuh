// Small arithmetic that several GPU kernels share.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace penstock::gpu {

// Every kernel begins with it. What is queued behind the kernel may begin as well, and waits here until this one has ended;
// so nothing that another kernel writes may be read before, and nothing be written.
__device__ inline void wait_for_turn() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline uint16_t bf16_of(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }
__device__ inline float float_of(uint16_t bf16) { return __uint_as_float(uint32_t(bf16) << 16); }

// silu(g) u = g u / (1 + e^-g)
__device__ inline float swiglu(float gate, float up) { return gate / (1.0F + __expf(-gate)) * up; }

__device__ inline float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}
__device__ inline float max_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

// Of all threads of the block, to all of them. `shared` holds a number for each warp.
__device__ inline float sum_of_block(float value, float* shared) {
  value = sum_of_warp(value);
  const int n_warps = (blockDim.x + 31) / 32;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < n_warps; ++warp) sum += shared[warp];
  __syncthreads();
  return sum;
}

}  // namespace penstock::gpu
