// A router on a GPU: logits, choice, and the step's assignments grouped by expert. The contracts are router_gpu.h's.
#include <cuda_fp16.h>

#include "kernels/gpu/gpu_matrix.h"
#include "kernels/gpu/numbers.cuh"
#include "kernels/rms_norm/norm.cuh"
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

constexpr int kGpuMostFew = kGpuRouterTokens * kGpuMostChoices;  // assignments

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
template <int PER_LANE>
__device__ inline void keep_best_groups(const GpuRouter& r, float (&choice)[PER_LANE], float* shared) {
  const int lane = threadIdx.x % 32;
  const int size = r.n_experts / r.n_groups;
#pragma unroll
  for (int k = 0; k < PER_LANE; ++k) {
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
  for (int k = 0; k < PER_LANE; ++k) {
    const int i = lane + 32 * k;
    if (i < r.n_experts && (kept >> (i / size) & 1) == 0) choice[k] = -INFINITY;
  }
}

// What a warp makes of its token's logits before anything is chosen. shared: [n_experts] of the warp's own.
// A lane has PER_LANE experts: lane, lane + 32, ...
template <int PER_LANE>
struct Scores {
  float scores[PER_LANE];
  uint32_t keys[PER_LANE];  // of what can be chosen, to be compared; 0 of what cannot

  __device__ Scores(const GpuRouter& r, float* shared, const float* logits, const float* bias) {
    const int lane = threadIdx.x % 32;
    float choice[PER_LANE];
    float highest = -INFINITY;
#pragma unroll
    for (int k = 0; k < PER_LANE; ++k) {
      const int i = lane + 32 * k;
      scores[k] = i < r.n_experts ? __ldcg(logits + i) : -INFINITY;
      highest = fmaxf(highest, scores[k]);
    }
    highest = max_of_warp(highest);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < PER_LANE; ++k) {
      if (32 * k >= r.n_experts) break;
      scores[k] = r.sigmoid != 0 ? 1.0F / (1.0F + expf(-scores[k])) : expf(scores[k] - highest);
      sum += scores[k];
    }
    sum = sum_of_warp(sum);
#pragma unroll
    for (int k = 0; k < PER_LANE; ++k) {
      const int i = lane + 32 * k;
      if (r.sigmoid == 0) scores[k] /= sum;
      choice[k] = i < r.n_experts ? scores[k] + (bias != nullptr ? bias[i] : 0.0F) : -INFINITY;
    }
    if (r.n_groups > 1) keep_best_groups(r, choice, shared);
    // What is there but lowest, -inf or NaN, counts 1.
#pragma unroll
    for (int k = 0; k < PER_LANE; ++k) keys[k] = lane + 32 * k < r.n_experts ? max(ordered(choice[k]), 1u) : 0;
  }
};

// Calls f with the number of experts that a lane has at most, as a type.
template <int N>
struct PerLane {
  static constexpr int value = N;
};
template <class F>
__device__ inline void with_per_lane(int n_experts, F f) {
  static_assert(kGpuMostExperts == 16 * 32);
  if (n_experts <= 4 * 32) {
    f(PerLane<4>());
  } else {
    f(PerLane<16>());
  }
}

// A warp, a token.  shared: [n_experts] of the warp's own.
template <int PER_LANE>
__device__ inline void choose_of(const GpuRouter& r, float* shared, const float* logits, const float* bias, int32_t* experts,
                              float* weights) {
  const int lane = threadIdx.x % 32;
  Scores<PER_LANE> of(r, shared, logits, bias);
  float total = r.sigmoid != 0 ? 1e-20F : 0.0F;
  float mine = 0;  // lane k has the k-th choice's weight
  for (int n = 0; n < r.top_k; ++n) {
    Best best = {0, 0};
#pragma unroll
    for (int k = 0; k < PER_LANE; ++k) {
      if (32 * k >= r.n_experts) break;
      if (of.keys[k] > best.key) best = {of.keys[k], lane + 32 * k};
    }
    best = best_of_warp(best);
    float score = 0;
#pragma unroll
    for (int k = 0; k < PER_LANE; ++k) {
      if (lane + 32 * k == best.index) score = of.scores[k], of.keys[k] = 0;
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

__device__ inline void choose(const GpuRouter& r, float* shared, const float* logits, const float* bias, int32_t* experts,
                              float* weights) {
  with_per_lane(r.n_experts, [&](auto n) { choose_of<decltype(n)::value>(r, shared, logits, bias, experts, weights); });
}

__device__ inline uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Asks the host for the layer's experts and waits until their slots are known, not for long: a host that died must not
// leave a kernel that never ends. One thread; what others wrote before the last barrier the host sees too.
__device__ inline void ask_host(GpuExpertMailbox* mailbox, uint32_t* counter, int layer) {
  // An expert whose slot the host did not give is read from slot 0, so that nothing reads wild addresses: the step has failed.
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

// What a step's routing is made of and where it goes: the last arguments of two kernels.
struct Route {
  GpuRouter router;
  int n_tokens;
  const float* bias;
  int32_t* experts;
  float* weights;
  const int32_t* slots;
  GpuExpertGroup* groups;
  int32_t* n_groups;
  int32_t* row_of;
  int32_t* token_of;
  GpuExpertMailbox* mailbox;
  int32_t* log;
  uint32_t* counter;
  int layer;
};

// Choices of few tokens, by a thread block of kGpuRouterTokens warps.
struct Few {
  alignas(16) uint32_t keys[kGpuRouterTokens][kGpuMostExperts];
  float scores[kGpuRouterTokens][kGpuMostExperts];
  int32_t experts[kGpuMostFew];   // of the assignments, a token's in the order of their keys
  float chosen[kGpuMostFew];      // their scores
  uint8_t is_first[kGpuMostFew];  // of its expert
};

// Experts that have k better ones are the k-th choice: every expert counts those at once, where a warp that takes one after
// the other waits for each.
__device__ inline void rank_experts(const Route& r, Few& few) {
  const int n_experts = r.router.n_experts, top_k = r.router.top_k;
  const int n_words = (n_experts + 3) / 4;  // what lies behind the last expert has the key 0
  for (int i = threadIdx.x; i < r.n_tokens * n_experts; i += blockDim.x) {
    const int t = i / n_experts, expert = i % n_experts;
    const uint32_t mine = few.keys[t][expert];
    // Of the same keys the earlier ones are better. Those of this expert's own four are looked at one by one.
    int n_better = 0;
#pragma unroll 4
    for (int k = 0; k < n_words; ++k) {
      const uint4 four = reinterpret_cast<const uint4*>(few.keys[t])[k];
      const uint32_t beaten = 4 * k < expert ? mine - 1 : mine;
      n_better += (four.x > beaten) + (four.y > beaten) + (four.z > beaten) + (four.w > beaten);
    }
    for (int other = expert; other < expert / 4 * 4 + 4; ++other) n_better -= few.keys[t][other] == mine && expert % 4 != 0;
    if (n_better < top_k) {
      few.experts[t * top_k + n_better] = expert;
      few.chosen[t * top_k + n_better] = few.scores[t][expert];
    }
  }
}

// The assignment's slot, -1: none.
__device__ inline int slot_of(const Route& r, int expert) { return __ldcg(r.slots + expert); }

// Chooses and groups.
__device__ inline void choose_and_group(const Route& r, const float* logits) {
  __shared__ Few few;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int top_k = r.router.top_k, n_experts = r.router.n_experts;
  if (warp < r.n_tokens) {
    with_per_lane(n_experts, [&](auto n) {
      constexpr int kPerLane = decltype(n)::value;
      const Scores<kPerLane> of(r.router, few.scores[warp], logits + warp * n_experts, r.bias);
#pragma unroll
      for (int k = 0; k < kPerLane; ++k) {
        if (32 * k >= n_experts) break;
        few.keys[warp][lane + 32 * k] = of.keys[k];
        few.scores[warp][lane + 32 * k] = of.scores[k];
      }
    });
  }
  __syncthreads();
  rank_experts(r, few);
  __syncthreads();
  const int n = r.n_tokens * top_k;
  const int i = threadIdx.x;
  const int expert = i < n ? few.experts[i] : -1;
  int slot = 0;
  if (i < n) {
    const int first = i / top_k * top_k;
    float total = r.router.sigmoid != 0 ? 1e-20F : 0.0F;
    for (int k = 0; k < top_k; ++k) total += few.chosen[first + k];
    const float factor = r.router.renormalize != 0 ? r.router.scale / total : r.router.scale;
    slot = slot_of(r, expert);
    r.experts[i] = expert;
    r.weights[i] = few.chosen[i] * factor;
    if (r.mailbox != nullptr) r.log[i] = expert;
  }
  if (r.mailbox != nullptr && __syncthreads_or(slot < 0)) {
    if (threadIdx.x == 0) ask_host(r.mailbox, r.counter, r.layer);
    __syncthreads();
    if (i < n) slot = slot_of(r, expert);
  }
  // A row's place: behind those of lower experts, and of its own that come earlier.
  int row = 0, n_rows = 0;
  bool is_first = i < n;
  if (i < n) {
    for (int j = 0; j < n; ++j) {
      const int other = few.experts[j];
      row += other < expert || (other == expert && j < i);
      n_rows += other == expert;
      is_first &= other != expert || j >= i;
    }
    few.is_first[i] = is_first;
  }
  const int n_groups = __syncthreads_count(is_first);
  if (i < n) {
    r.row_of[i] = row;
    r.token_of[row] = i / top_k;
  }
  if (is_first) {
    int group = 0;
    for (int j = 0; j < n; ++j) group += few.is_first[j] != 0 && few.experts[j] < expert;
    r.groups[group] = {expert, row, n_rows, max(slot, 0)};
  }
  if (i == 0) *r.n_groups = n_groups;
}

// Few tokens from the stream to their routing, with the bits of rms_norm, router_logits and router_choose_and_group: norms
// (h [tokens, cols] bf16 for whoever multiplies them next), logits, and by the thread block that ends last the choice.
// Grid: [n_experts / kRouteExperts]; kNormThreads threads. arrived: 0 before and after.
constexpr int kRouteExperts = kNormThreads / kLogitThreads;

template <class Number>
__device__ inline void route(const Number* matrix, const float* x, int64_t x_stride, const float* norm, float eps, int cols,
                             float factor, float* logits, uint16_t* h, int64_t h_stride, int32_t* arrived, const Route& r) {
  __shared__ float norm_sums[kGpuRouterTokens][kNormWarps], factors[kGpuRouterTokens];
  __shared__ float dots[kGpuRouterTokens][kNormWarps];
  __shared__ bool is_last;
  const int column = threadIdx.x % kLogitThreads;
  const int expert = blockIdx.x * kRouteExperts + threadIdx.x / kLogitThreads;
  const int n_experts = r.router.n_experts;
  const Number* const row = matrix + int64_t(min(expert, n_experts - 1)) * cols;
  float kept[kLogitKept], kept_norm[kLogitKept];
#pragma unroll
  for (int k = 0; k < kLogitKept; ++k) {
    const int i = column + k * kLogitThreads;
    kept[k] = i < cols ? widened(row[i]) : 0;
    kept_norm[k] = i < cols ? norm[i] : 0;
  }
  wait_for_turn();
  norm_factors([&](int t) { return x + t * x_stride; }, r.n_tokens, cols, eps, norm_sums, factors);
  for (int t = 0; t < r.n_tokens; ++t) {
    const float* const token = x + t * x_stride;
    const bool writes = blockIdx.x == t % gridDim.x && threadIdx.x < kLogitThreads;
    float sum = 0;
    const auto add = [&](int i, float weight, float of_norm) {
      const float value = normed(token[i], factors[t], of_norm);
      sum = fmaf(weight, value, sum);
      if (writes) h[t * h_stride + i] = bf16_of(value);
    };
#pragma unroll
    for (int k = 0; k < kLogitKept; ++k) {
      const int i = column + k * kLogitThreads;
      if (i < cols) add(i, kept[k], kept_norm[k]);
    }
    for (int i = column + kLogitKept * kLogitThreads; i < cols; i += kLogitThreads) add(i, widened(row[i]), norm[i]);
    sum = sum_of_warp(sum);
    if (threadIdx.x % 32 == 0) dots[t][threadIdx.x / 32] = sum;
  }
  __syncthreads();
  // The four warps of an expert, in their order.
  constexpr int kWarpsOfOne = kLogitThreads / 32;
  if (threadIdx.x < kRouteExperts * r.n_tokens) {
    const int t = threadIdx.x / kRouteExperts, which = threadIdx.x % kRouteExperts;
    const int of = blockIdx.x * kRouteExperts + which;
    float sum = 0;
    for (int warp = 0; warp < kWarpsOfOne; ++warp) sum += dots[t][which * kWarpsOfOne + warp];
    if (of < n_experts) __stcg(logits + t * n_experts + of, sum * factor);
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(arrived, 1) == int(gridDim.x) - 1;
    if (is_last) {
      *arrived = 0;
      __threadfence();
    }
  }
  __syncthreads();
  if (is_last) choose_and_group(r, logits);
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

// The last arguments of the two kernels below.
#define PENSTOCK_ROUTE_PARAMETERS                                                                                          \
  GpuRouter router, int32_t n_tokens, const float *bias, int32_t *experts, float *weights, const int32_t *slots,           \
      GpuExpertGroup *groups, int32_t *n_groups, int32_t *row_of, int32_t *token_of, GpuExpertMailbox *mailbox,            \
      int32_t *log, uint32_t *counter, int32_t layer
#define PENSTOCK_ROUTE \
  gpu::Route { router, n_tokens, bias, experts, weights, slots, groups, n_groups, row_of, token_of, mailbox, log, counter, layer }

// Both at once, for at most 8 tokens.
extern "C" __global__ void __launch_bounds__(256) router_choose_and_group(const float* logits, PENSTOCK_ROUTE_PARAMETERS) {
  gpu::wait_for_turn();
  gpu::choose_and_group(PENSTOCK_ROUTE, logits);
}

// And all of it.
#define PENSTOCK_ROUTER(FORMAT, NUMBER)                                                                                    \
  extern "C" __global__ void __launch_bounds__(gpu::kNormThreads) router_##FORMAT(                                         \
      const NUMBER* matrix, const float* x, int64_t x_stride, const float* norm, float eps, int32_t cols, float factor,    \
      float* logits, uint16_t* h, int64_t h_stride, int32_t* arrived, PENSTOCK_ROUTE_PARAMETERS) {                         \
    gpu::route<NUMBER>(matrix, x, x_stride, norm, eps, cols, factor, logits, h, h_stride, arrived, PENSTOCK_ROUTE);        \
  }
PENSTOCK_ROUTER(f32, float)
PENSTOCK_ROUTER(f16, __half)
PENSTOCK_ROUTER(bf16, uint16_t)
