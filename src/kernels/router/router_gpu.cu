// A router on a GPU: logits, choice, and the step's assignments grouped by expert. The contracts are router_gpu.h's.
#include <cuda_fp16.h>

#include "kernels/gpu/gpu_matrix.h"
#include "kernels/gpu/numbers.cuh"
#include "kernels/router/gpu_router.h"

namespace penstock::gpu {

template <class Number>
__device__ inline float widened(Number number);
template <>
__device__ inline float widened(float number) { return number; }
template <>
__device__ inline float widened(uint16_t number) { return float_of(number); }
template <>
__device__ inline float widened(__half number) { return __half2float(number); }

// Grid: [experts / 8, tokens]; a warp, an expert. In float32, as it decides more than it computes.
template <class Number>
__device__ inline void router_logits(const Number* weights, const float* x, int64_t x_stride, int cols, int n_experts,
                                     float factor, float* logits) {
  const int expert = blockIdx.x * 8 + threadIdx.x / 32;
  if (expert >= n_experts) return;
  const float* const token = x + blockIdx.y * x_stride;
  const Number* const row = weights + int64_t(expert) * cols;
  float sum = 0;
  for (int i = threadIdx.x % 32; i < cols; i += 32) sum = fmaf(widened(row[i]), token[i], sum);
  sum = sum_of_warp(sum);
  if (threadIdx.x % 32 == 0) logits[int64_t(blockIdx.y) * n_experts + expert] = sum * factor;
}

struct Best {
  float value;
  int index;  // the lowest of equals; -1: none
};

__device__ inline Best better(Best a, Best b) {
  if (a.index < 0) return b;
  if (b.index < 0) return a;
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

// The best of values [0, n) that is not taken, by a warp.
__device__ inline Best take_best(const float* values, int n, bool* taken) {
  Best best = {0, -1};
  for (int i = threadIdx.x % 32; i < n; i += 32) {
    if (!taken[i]) best = better(best, {values[i], i});
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const Best other = {__shfl_xor_sync(~0u, best.value, distance), __shfl_xor_sync(~0u, best.index, distance)};
    best = better(best, other);
  }
  __syncwarp();
  if (threadIdx.x % 32 == 0) taken[best.index] = true;
  __syncwarp();
  return best;
}

// A warp, a token.  Shared memory of the warp: scores, choice [n_experts]; taken [n_experts].
__device__ inline void choose(const GpuRouter& r, float* scores, float* choice, bool* taken, const float* logits,
                              const float* bias, int32_t* experts, float* weights) {
  const int lane = threadIdx.x % 32;
  const int n = r.n_experts;
  float highest = -INFINITY;
  for (int i = lane; i < n; i += 32) highest = fmaxf(highest, logits[i]);
  highest = max_of_warp(highest);
  float sum = 0;
  for (int i = lane; i < n; i += 32) {
    scores[i] = r.sigmoid != 0 ? 1.0F / (1.0F + expf(-logits[i])) : expf(logits[i] - highest);
    sum += scores[i];
  }
  sum = sum_of_warp(sum);
  for (int i = lane; i < n; i += 32) {
    if (r.sigmoid == 0) scores[i] /= sum;
    const float value = scores[i] + (bias != nullptr ? bias[i] : 0.0F);
    choice[i] = isnan(value) ? -INFINITY : value;
  }
  __syncwarp();
  if (r.n_groups > 1) {
    // A group's score is the sum of its two highest. Few groups, few experts: lane g has group g.
    const int size = n / r.n_groups;
    float mine = -INFINITY;
    if (lane < r.n_groups) {
      float first = -INFINITY, second = size > 1 ? -INFINITY : 0.0F;
      for (int i = lane * size; i < (lane + 1) * size; ++i) {
        second = fmaxf(second, fminf(first, choice[i]));
        first = fmaxf(first, choice[i]);
      }
      mine = first + second;
    }
    bool is_kept = false, is_candidate = lane < r.n_groups;
    for (int k = 0; k < r.top_groups; ++k) {
      Best best = {mine, is_candidate ? lane : -1};
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        best = better(best, {__shfl_xor_sync(~0u, best.value, distance), __shfl_xor_sync(~0u, best.index, distance)});
      }
      if (best.index == lane) is_kept = true, is_candidate = false;
    }
    if (lane < r.n_groups && !is_kept) {
      for (int i = lane * size; i < (lane + 1) * size; ++i) choice[i] = -INFINITY;
    }
    __syncwarp();
  }
  for (int i = lane; i < n; i += 32) taken[i] = false;
  __syncwarp();
  float total = r.sigmoid != 0 ? 1e-20F : 0.0F;
  for (int k = 0; k < r.top_k; ++k) {
    const int best = take_best(choice, n, taken).index;
    total += scores[best];
    if (lane == 0) experts[k] = best, weights[k] = scores[best];
  }
  const float factor = r.renormalize != 0 ? r.scale / total : r.scale;
  __syncwarp();
  if (lane == 0) {
    for (int k = 0; k < r.top_k; ++k) weights[k] *= factor;
  }
}

// One thread block: counts, places, lists. Which row of its expert's an assignment becomes is left to chance: no result
// depends on it.
__device__ inline void group_by_expert(const int32_t* experts, int n_assignments, int top_k, int n_experts,
                                       GpuExpertGroup* groups, int32_t* n_groups, int32_t* row_of, int32_t* token_of) {
  extern __shared__ int32_t places[];  // [n_experts] counts, then next rows
  for (int i = threadIdx.x; i < n_experts; i += blockDim.x) places[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n_assignments; i += blockDim.x) atomicAdd(&places[experts[i]], 1);
  __syncthreads();
  if (threadIdx.x < 32) {
    // The first warp turns counts into places, 32 experts at a time.
    int row = 0, group = 0;
    for (int first = 0; first < n_experts; first += 32) {
      const int expert = first + threadIdx.x;
      const int count = expert < n_experts ? places[expert] : 0;
      int rows_through = count, groups_through = count > 0 ? 1 : 0;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int rows = __shfl_up_sync(~0u, rows_through, distance);
        const int others = __shfl_up_sync(~0u, groups_through, distance);
        if (threadIdx.x >= distance) rows_through += rows, groups_through += others;
      }
      if (count > 0) groups[group + groups_through - 1] = {expert, row + rows_through - count, count, 0};
      if (expert < n_experts) places[expert] = row + rows_through - count;
      row += __shfl_sync(~0u, rows_through, 31);
      group += __shfl_sync(~0u, groups_through, 31);
    }
    if (threadIdx.x == 0) *n_groups = group;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n_assignments; i += blockDim.x) {
    const int row = atomicAdd(&places[experts[i]], 1);
    row_of[i] = row;
    token_of[row] = i / top_k;
  }
}

}  // namespace penstock::gpu

using namespace penstock;

#define PENSTOCK_ROUTER_LOGITS(FORMAT, NUMBER)                                                                               \
  extern "C" __global__ void router_logits_##FORMAT(const NUMBER* weights, const float* x, int64_t x_stride, int32_t cols,   \
                                                    int32_t n_experts, float factor, float* logits) { \
    penstock::gpu::wait_for_turn();                        \
    gpu::router_logits<NUMBER>(weights, x, x_stride, cols, n_experts, factor, logits);                                       \
  }
PENSTOCK_ROUTER_LOGITS(f32, float)
PENSTOCK_ROUTER_LOGITS(f16, __half)
PENSTOCK_ROUTER_LOGITS(bf16, uint16_t)

// Grid: [tokens]; one warp.
extern "C" __global__ void router_choose(GpuRouter router, const float* logits, const float* bias, int32_t* experts,
                                         float* weights) {
  penstock::gpu::wait_for_turn();
  extern __shared__ float memory[];
  float* const choice = memory + router.n_experts;
  bool* const taken = reinterpret_cast<bool*>(choice + router.n_experts);
  const int64_t t = blockIdx.x;
  gpu::choose(router, memory, choice, taken, logits + t * router.n_experts, bias, experts + t * router.top_k,
              weights + t * router.top_k);
}

extern "C" __global__ void router_group(const int32_t* experts, int32_t n_assignments, int32_t top_k, int32_t n_experts,
                                        GpuExpertGroup* groups, int32_t* n_groups, int32_t* row_of, int32_t* token_of) {
  penstock::gpu::wait_for_turn();
  gpu::group_by_expert(experts, n_assignments, top_k, n_experts, groups, n_groups, row_of, token_of);
}
