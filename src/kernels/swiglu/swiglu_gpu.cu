// act = silu(gate) * up on a GPU: the contract is swiglu_gpu.h's.
#include "kernels/gpu/numbers.cuh"

// Grid: [rows].
extern "C" __global__ void swiglu(const float* gate, const float* up, int64_t stride, int32_t cols, uint16_t* act,
                                  int64_t act_stride) {
  penstock::gpu::wait_for_turn();
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    act[row * act_stride + i] =
        penstock::gpu::bf16_of(penstock::gpu::swiglu(gate[row * stride + i], up[row * stride + i]));
  }
}
