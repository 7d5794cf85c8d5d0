// A router on a GPU: logits, choice, and the step's assignments grouped by expert. The contracts are router_gpu.h's.
#include <cuda_fp16.h>

#include "kernels/gpu/gpu_matrix.h"
#include "kernels/gpu/numbers.cuh"
#include "kernels/router/gpu_router.h"

namespace penstock::gpu {

__device__ inline float widened(float number) { return number; }
__device__ inline float widened(uint16_t number) { return float_of(number); }
__device__ inline float widened(__half number) { return __half2float(number); }

constexpr int kLogitThreads = 128;
constexpr int kLogitKept = 16;  // weights that a thread keeps: of more columns the rest is read for each token

// Grid: [experts, tokens / kGpuRouterTokens]. In float32, as it decides more than it computes.
template <class Number>
__device__ inline void router_logits(const Number* weights, const float* x, int64_t x_stride, int cols, int n_experts, int n_tokens,
                                     float factor, float* logits) {
  __shared__ float shared[kLogitThreads / 32];
  const Number* const row = weights + int64_t(blockIdx.x) * cols;
  float kept[kLogitKept];
#pragma unroll
  for (int k = 0; k < kLogitKept; ++k) {
    const int i = threadIdx.x + k * kLogitThreads;
    kept[k] = i < cols ? widened(row[i]) : 0;
  }
  wait_for_turn();
  const int last = min(n_tokens, int(blockIdx.y + 1) * kGpuRouterTokens);
  for (int t = blockIdx.y * kGpuRouterTokens; t < last; ++t) {
    const float* const token = x + t * x_stride;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kLogitKept; ++k) {
      const int i = threadIdx.x + k * kLogitThreads;
      if (i < cols) sum = fmaf(kept[k], token[i], sum);
    }
    for (int i = threadIdx.x + kLogitKept * kLogitThreads; i < cols; i += kLogitThreads) sum = fmaf(widened(row[i]), token[i], sum);
    sum = sum_of_block(sum, shared);
    if (threadIdx.x == 0) logits[int64_t(t) * n_experts + blockIdx.x] = sum * factor;
  }
}

// A number as an integer that compares as it does, NaN and -inf lowest.
__device__ inline uint32_t ordered(float value) {
  if (!(value > -INFINITY)) return 0;
  const uint32_t bits = __float_as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

constexpr int kPerLane = kGpuMostExperts / 32;  // experts of a lane: lane, lane + 32, ...

// The lowest index of the highest key that a warp's lanes have, whose `index(k)` is that of their k-th.
struct Best {
  uint32_t key;
  int index;
};
__device__ inline Best best_of_warp(Best mine) {
  const uint32_t key = __reduce_max_sync(~0u, mine.key);
  const uint32_t index = mine.key == key ? uint32_t(mine.index) : ~0u;
  return {key, int(__reduce_min_sync(~0u, index))};
}

// Lowers the experts of all but the best groups to -inf. A group's score is the sum of its two highest; lane g has group g.
__device__ inline void keep_best_groups(const GpuRouter& r, float (&choice)[kPerLane], float* shared) {
  const int lane = threadIdx.x % 32;
  const int size = r.n_experts / r.n_groups;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    if (lane + 32 * k < r.n_experts) shared[lane + 32 * k] = choice[k];
  }
  __syncwarp();
  Best mine = {0, 32};
  if (lane < r.n_groups) {
    float first = -INFINITY, second = size > 1 ? -INFINITY : 0.0F;
    for (int i = lane * size; i < (lane + 1) * size; ++i) {
      second = fmaxf(second, fminf(first, shared[i]));
      first = fmaxf(first, shared[i]);
    }
    mine = {max(ordered(first + second), 1u), lane};
  }
  uint32_t kept = 0;
  for (int k = 0; k < r.top_groups; ++k) {
    const Best best = best_of_warp(mine);
    kept |= 1u << best.index;
    if (best.index == lane) mine = {0, 32};
  }
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int i = lane + 32 * k;
    if (i < r.n_experts && (kept >> (i / size) & 1) == 0) choice[k] = -INFINITY;
  }
}

// A warp, a token.  shared: [n_experts] of the warp's own.
__device__ inline void choose(const GpuRouter& r, float* shared, const float* logits, const float* bias, int32_t* experts,
                              float* weights) {
  const int lane = threadIdx.x % 32;
  float scores[kPerLane], choice[kPerLane];
  float highest = -INFINITY;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int i = lane + 32 * k;
    scores[k] = i < r.n_experts ? logits[i] : -INFINITY;
    highest = fmaxf(highest, scores[k]);
  }
  highest = max_of_warp(highest);
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    if (32 * k >= r.n_experts) break;
    scores[k] = r.sigmoid != 0 ? 1.0F / (1.0F + expf(-scores[k])) : expf(scores[k] - highest);
    sum += scores[k];
  }
  sum = sum_of_warp(sum);
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int i = lane + 32 * k;
    if (r.sigmoid == 0) scores[k] /= sum;
    choice[k] = i < r.n_experts ? scores[k] + (bias != nullptr ? bias[i] : 0.0F) : -INFINITY;
  }
  if (r.n_groups > 1) keep_best_groups(r, choice, shared);
  // Keys of what can still be chosen; 0 of what cannot. What is there but lowest, -inf or NaN, counts 1.
  uint32_t keys[kPerLane];
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) keys[k] = lane + 32 * k < r.n_experts ? max(ordered(choice[k]), 1u) : 0;
  float total = r.sigmoid != 0 ? 1e-20F : 0.0F;
  float mine = 0;  // lane k has the k-th choice's weight
  for (int n = 0; n < r.top_k; ++n) {
    Best best = {0, 0};
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      if (32 * k >= r.n_experts) break;
      if (keys[k] > best.key) best = {keys[k], lane + 32 * k};
    }
    best = best_of_warp(best);
    float score = 0;
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      if (lane + 32 * k == best.index) score = scores[k], keys[k] = 0;
    }
    score = __shfl_sync(~0u, score, best.index % 32);
    total += score;
    if (lane == n) {
      mine = score;
      experts[n] = best.index;
    }
  }
  const float factor = r.renormalize != 0 ? r.scale / total : r.scale;
  if (lane < r.top_k) weights[lane] = mine * factor;
}

__device__ inline uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// An expert whose slot the host did not give is read from slot 0, so that nothing reads wild addresses: the step has failed.
// Asks the host for the layer's experts and waits until their slots are known, not for long: a host that died must not
// leave a kernel that never ends. One thread; what others wrote before the last barrier the host sees too.
__device__ inline void ask_host(GpuExpertMailbox* mailbox, uint32_t* counter, int layer) {
  constexpr uint64_t kMostNanoseconds = 500'000'000;
  if (*reinterpret_cast<volatile uint32_t*>(&mailbox->failed) != 0) return;  // nobody answers
  const uint32_t number = ++*counter;
  mailbox->layer = layer;
  __threadfence_system();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(&mailbox->request), "r"(number) : "memory");
  const uint64_t began = nanoseconds();
  uint32_t reply;
  do {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(reply) : "l"(&mailbox->reply) : "memory");
    if (nanoseconds() - began > kMostNanoseconds) {
      mailbox->failed = 1;
      return;
    }
  } while (reply != number);
}

// All of the block: has every expert that was chosen in a slot.
__device__ inline void await_experts(const int32_t* experts, int n_assignments, const int32_t* slots, GpuExpertMailbox* mailbox,
                                     int32_t* log, uint32_t* counter, int layer) {
  bool is_missing = false;
  for (int i = threadIdx.x; i < n_assignments; i += blockDim.x) {
    log[i] = experts[i];
    is_missing |= __ldcg(slots + experts[i]) < 0;
  }
  if (__syncthreads_or(is_missing) && threadIdx.x == 0) ask_host(mailbox, counter, layer);
  __syncthreads();
}

// One thread block: counts, places, lists. Which row of its expert's an assignment becomes is left to chance: no result
// depends on it.
__device__ inline void group_by_expert(const int32_t* experts, int n_assignments, int top_k, int n_experts,
                                       const int32_t* slots, GpuExpertGroup* groups, int32_t* n_groups, int32_t* row_of, int32_t* token_of) {
  extern __shared__ float memory[];
  int32_t* const places = reinterpret_cast<int32_t*>(memory);  // [n_experts]: counts, then next rows
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
      if (count > 0) groups[group + groups_through - 1] =
            {expert, row + rows_through - count, count, max(__ldcg(slots + expert), 0)};
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
  extern "C" __global__ void __launch_bounds__(gpu::kLogitThreads) router_logits_##FORMAT(                                   \
      const NUMBER* weights, const float* x, int64_t x_stride, int32_t cols, int32_t n_experts, int32_t n_tokens,            \
      float factor, float* logits) {                                                                                         \
    gpu::router_logits<NUMBER>(weights, x, x_stride, cols, n_experts, n_tokens, factor, logits);                             \
  }
PENSTOCK_ROUTER_LOGITS(f32, float)
PENSTOCK_ROUTER_LOGITS(f16, __half)
PENSTOCK_ROUTER_LOGITS(bf16, uint16_t)

// Grid: [tokens / 8]; a warp, a token.  Shared memory: [8, n_experts].
extern "C" __global__ void __launch_bounds__(256) router_choose(GpuRouter router, int32_t n_tokens, const float* logits,
                                                                const float* bias, int32_t* experts, float* weights) {
  gpu::wait_for_turn();
  extern __shared__ float memory[];
  const int warp = threadIdx.x / 32;
  const int64_t t = blockIdx.x * 8 + warp;
  if (t >= n_tokens) return;
  gpu::choose(router, memory + warp * router.n_experts, logits + t * router.n_experts, bias, experts + t * router.top_k,
              weights + t * router.top_k);
}

extern "C" __global__ void __launch_bounds__(256) router_group(const int32_t* experts, int32_t n_assignments, int32_t top_k,
                                                               int32_t n_experts, const int32_t* slots, GpuExpertGroup* groups, int32_t* n_groups,
                                                               int32_t* row_of, int32_t* token_of) {
  gpu::wait_for_turn();
  gpu::group_by_expert(experts, n_assignments, top_k, n_experts, slots, groups, n_groups, row_of, token_of);
}

// Both at once, for at most 8 tokens.  Shared memory: [8, n_experts].
extern "C" __global__ void __launch_bounds__(256) router_choose_and_group(GpuRouter router, int32_t n_tokens, const float* logits,
                                                                          const float* bias, int32_t* experts, float* weights,
                                                                          const int32_t* slots, GpuExpertGroup* groups, int32_t* n_groups,
                                                                          int32_t* row_of, int32_t* token_of,
                                                                          GpuExpertMailbox* mailbox, int32_t* log,
                                                                          uint32_t* counter, int32_t layer) {
  gpu::wait_for_turn();
  extern __shared__ float memory[];
  const int t = threadIdx.x / 32;
  if (t < n_tokens) {
    gpu::choose(router, memory + t * router.n_experts, logits + t * router.n_experts, bias, experts + t * router.top_k,
                weights + t * router.top_k);
  }
  __syncthreads();
  if (mailbox != nullptr) gpu::await_experts(experts, n_tokens * router.top_k, slots, mailbox, log, counter, layer);
  gpu::group_by_expert(experts, n_tokens * router.top_k, router.top_k, router.n_experts, slots, groups, n_groups, row_of, token_of);
}
