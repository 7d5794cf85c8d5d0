// Paged attention on a GPU: the contracts are attention_gpu.h's.
#include "kernels/gpu/codecs.cuh"
#include "kernels/gpu/numbers.cuh"
#include "kernels/attention/gpu_shape.h"

namespace penstock::gpu {

constexpr int kSplitThreads = 128;
static_assert(kGpuSplitKeys == kGpuPageTokens && kSplitThreads == 2 * kGpuSplitKeys);
constexpr int kMaxHeadDim = 256;

// A head's norm, then its rotation, in place. One warp; head in shared memory.
__device__ inline void norm_head(float* head, int dim, const float* weight, float eps) {
  const int lane = threadIdx.x % 32;
  float sum = 0;
  for (int i = lane; i < dim; i += 32) sum += head[i] * head[i];
  const float factor = rsqrtf(sum_of_warp(sum) / float(dim) + eps);
  __syncwarp();
  for (int i = lane; i < dim; i += 32) head[i] *= factor * weight[i];
  __syncwarp();
}

__device__ inline void rotate_head(float* head, const float* cos, const float* sin, int half, bool interleaved) {
  for (int i = threadIdx.x % 32; i < half; i += 32) {
    const int first = interleaved ? 2 * i : i;
    const int second = interleaved ? 2 * i + 1 : i + half;
    const float a = head[first], b = head[second];
    head[first] = a * cos[i] - b * sin[i];
    head[second] = b * cos[i] + a * sin[i];
  }
  __syncwarp();
}

// Each warp a head of q, k or v: what lies in qkv becomes q (rotated), and keys and values in their page.
__device__ inline void store_heads(const GpuAttentionShape& s, float* q, float* k, const float* v, const float* q_norm,
                                   const float* k_norm, const float* angles, const GpuToken* tokens, const int32_t* pages,
                                   uint16_t* kv, uint64_t page_numbers) {
  __shared__ float heads[4][kMaxHeadDim];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head = blockIdx.y * 4 + warp;
  const int64_t t = blockIdx.x;
  if (head >= s.n_heads + 2 * s.n_kv_heads) return;
  const bool is_q = head < s.n_heads;
  const bool is_k = !is_q && head < s.n_heads + s.n_kv_heads;
  const int of_kind = is_q ? head : is_k ? head - s.n_heads : head - s.n_heads - s.n_kv_heads;
  const float* const from = is_q   ? q + t * s.q_stride + of_kind * s.head_dim
                            : is_k ? k + t * s.kv_stride + of_kind * s.head_dim
                                   : v + t * s.kv_stride + of_kind * s.head_dim;
  float* const mine = heads[warp];
  for (int i = lane; i < s.head_dim; i += 32) mine[i] = from[i];
  __syncwarp();
  if (is_q || is_k) {
    const float* const norm = is_q ? q_norm : k_norm;
    if (norm != nullptr) norm_head(mine, s.head_dim, norm, s.eps);
    const float* const cos = angles + t * 2 * s.half;
    rotate_head(mine, cos, cos + s.half, s.half, s.interleaved != 0);
  }
  if (is_q) {
    float* const to = q + t * s.q_stride + of_kind * s.head_dim;
    for (int i = lane; i < s.head_dim; i += 32) to[i] = mine[i];
    return;
  }
  const GpuToken token = tokens[t];
  const int page = pages[token.first_page + token.position / kGpuPageTokens];
  uint16_t* const to = kv + uint64_t(page) * page_numbers + uint64_t(s.layer) * 2 * s.layer_numbers() +
                       (is_k ? 0 : s.layer_numbers()) +
                       (uint64_t(of_kind) * kGpuPageTokens + token.position % kGpuPageTokens) * s.head_dim;
  for (int i = lane; i < s.head_dim; i += 32) to[i] = bf16_of(mine[i]);
}

// Heads of a kv head that are computed at a time; more take several turns.
constexpr int kHeadsAtOnce = 8;

// How a thread block reads a page. DIM is the heads' size, or 0: any.
template <int DIM>
struct Split {
  float* queries;  // [kHeadsAtOnce, padded()]
  float* p;        // [kGpuSplitKeys, kHeadsAtOnce]: scores, then e^(score - highest)
  float* sums;     // [kHeadsAtOnce, dim()]: what the first half of the keys gave
  int any_dim;
  int n_heads;               // of the turn
  int first_key, n_keys;     // [first_key, n_keys) are seen

  __device__ int dim() const { return DIM > 0 ? DIM : any_dim; }
  __device__ int padded() const { return (dim() + 15) / 16 * 16; }

  // Numbers [at, at + 8) of a row, 0 behind its end.
  __device__ void load_eight(const uint16_t* row, int at, uint32_t (&pairs)[4]) const {
    if constexpr (DIM > 0) {
      load_aligned(reinterpret_cast<const uint8_t*>(row + at), pairs);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = at + 2 * j;
        pairs[j] = (i < dim() ? row[i] : 0) | (i + 1 < dim() ? uint32_t(row[i + 1]) << 16 : 0);
      }
    }
  }

  // As the products of the class `gpu` take them: bf16. The scale is a float's.
  __device__ void load_queries(const float* q, float scale) const {
    for (int column = threadIdx.x; column < padded(); column += kSplitThreads) {
#pragma unroll
      for (int h = 0; h < kHeadsAtOnce; ++h) {
        const bool is_there = h < n_heads && column < dim();
        queries[h * padded() + column] = is_there ? float_of(bf16_of(q[h * dim() + column])) * scale : 0;
      }
    }
  }

  // Scores of all keys, two threads a key: every other 8 numbers each.
  __device__ void score_keys(const uint16_t* keys) const {
    const int key = threadIdx.x / 2, half = threadIdx.x % 2;
    float scores[kHeadsAtOnce] = {};
    const bool is_seen = key >= first_key && key < n_keys;
    if (is_seen) {
      const uint16_t* const row = keys + key * dim();
#pragma unroll
      for (int at = 0; at < (DIM > 0 ? DIM : kMaxHeadDim); at += 16) {
        if (DIM == 0 && at >= padded()) break;
        uint32_t pairs[4];
        load_eight(row, at + 8 * half, pairs);
#pragma unroll
        for (int h = 0; h < kHeadsAtOnce; ++h) {
          if (h >= n_heads) break;
          const float4* const query = reinterpret_cast<const float4*>(queries + h * padded() + at + 8 * half);
          const float4 a = query[0], b = query[1];
          const float numbers[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            scores[h] = fmaf(numbers[2 * j], bf16_bits(pairs[j] & 0xFFFF), scores[h]);
            scores[h] = fmaf(numbers[2 * j + 1], __uint_as_float(pairs[j] & 0xFFFF0000u), scores[h]);
          }
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeadsAtOnce; ++h) {
      const float score = scores[h] + __shfl_xor_sync(~0u, scores[h], 1);
      if (half == 0) p[key * kHeadsAtOnce + h] = is_seen ? score : -INFINITY;
    }
  }

  // p = e^(score - highest) of one head, by a warp; its highest score and the sum of p go to `stats`.
  __device__ void weigh_keys(int head, float* stats) const {
    const int lane = threadIdx.x % 32;
    float scores[kGpuSplitKeys / 32];
    float highest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kGpuSplitKeys / 32; ++i) {
      scores[i] = p[(lane + 32 * i) * kHeadsAtOnce + head];
      highest = fmaxf(highest, scores[i]);
    }
    highest = max_of_warp(highest);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kGpuSplitKeys / 32; ++i) {
      const float weight = __expf(scores[i] - highest);
      p[(lane + 32 * i) * kHeadsAtOnce + head] = weight;
      sum += weight;
    }
    sum = sum_of_warp(sum);
    if (lane == 0) stats[0] = highest, stats[1] = sum;
  }

  // Sums of p v: half of the threads take the first half of the keys, half the second; a thread takes two columns.
  __device__ void sum_values(const uint16_t* values, float* part, int64_t part_stride) const {
    constexpr int kHalfThreads = kSplitThreads / 2;
    constexpr int kHalfKeys = kGpuSplitKeys / 2;
    constexpr int kBatch = 16;  // loads on their way
    const int half = threadIdx.x / kHalfThreads;
    // Every thread goes as far as the widest row: they meet at barriers.
    for (int first = 0; first < dim(); first += 2 * kHalfThreads) {
      const int column = first + 2 * (threadIdx.x % kHalfThreads);
      float columns[kHeadsAtOnce][2] = {};
      for (int i = 0; i < kHalfKeys; i += kBatch) {
        uint32_t pairs[kBatch];
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const int key = half * kHalfKeys + i + j;
          pairs[j] = 0;
          if (key < first_key || key >= n_keys || column >= dim()) continue;
          const uint16_t* const at = values + key * dim() + column;
          if constexpr (DIM > 0) {
            pairs[j] = __ldg(reinterpret_cast<const uint32_t*>(at));
          } else {
            pairs[j] = at[0] | (column + 1 < dim() ? uint32_t(at[1]) << 16 : 0);
          }
        }
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const float4* const weights = reinterpret_cast<const float4*>(p + (half * kHalfKeys + i + j) * kHeadsAtOnce);
          const float4 a = weights[0], b = weights[1];
          const float of_heads[kHeadsAtOnce] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
          for (int h = 0; h < kHeadsAtOnce; ++h) {
            columns[h][0] = fmaf(of_heads[h], bf16_bits(pairs[j] & 0xFFFF), columns[h][0]);
            columns[h][1] = fmaf(of_heads[h], __uint_as_float(pairs[j] & 0xFFFF0000u), columns[h][1]);
          }
        }
      }
      __syncthreads();
      if (half == 0 && column < dim()) {
#pragma unroll
        for (int h = 0; h < kHeadsAtOnce; ++h) {
          sums[h * dim() + column] = columns[h][0];
          if (column + 1 < dim()) sums[h * dim() + column + 1] = columns[h][1];
        }
      }
      __syncthreads();
      if (half == 1 && column < dim()) {
#pragma unroll
        for (int h = 0; h < kHeadsAtOnce; ++h) {
          if (h >= n_heads) break;
          part[h * part_stride + column] = sums[h * dim() + column] + columns[h][0];
          if (column + 1 < dim()) part[h * part_stride + column + 1] = sums[h * dim() + column + 1] + columns[h][1];
        }
      }
    }
  }
};

// One page of the keys that a token sees, for the heads of one kv head.  Grid: [splits, kv heads, tokens].
// part [tokens, heads, splits, head_dim]: sum of p v; stats [tokens, heads, splits, 2]: the highest score, sum of p.
template <int DIM>
__device__ inline void attend_split(const GpuAttentionShape& s, const float* q, const GpuToken* tokens, const int32_t* pages,
                                    const uint16_t* kv, uint64_t page_numbers, float* part, float* stats, int max_splits) {
  extern __shared__ float4 shared[];
  const int group = s.n_heads / s.n_kv_heads;
  const int64_t t = blockIdx.z;
  const int kv_head = blockIdx.y, split = blockIdx.x;
  const GpuToken token = tokens[t];
  const int first_seen = s.window > 0 ? max(0, token.position - s.window + 1) : 0;
  const int begin = split * kGpuSplitKeys;
  Split<DIM> of;
  of.any_dim = s.head_dim;
  of.n_keys = min(kGpuSplitKeys, token.position + 1 - begin);
  of.first_key = max(0, first_seen - begin);
  if (of.n_keys <= of.first_key) return;  // nothing that the token sees: combine knows
  of.queries = reinterpret_cast<float*>(shared);
  of.p = of.queries + kHeadsAtOnce * of.padded();
  of.sums = of.p + kGpuSplitKeys * kHeadsAtOnce;
  const uint16_t* const keys = kv + uint64_t(pages[token.first_page + split]) * page_numbers +
                               uint64_t(s.layer) * 2 * s.layer_numbers() +
                               uint64_t(kv_head) * kGpuPageTokens * of.dim();
  for (int h0 = 0; h0 < group; h0 += kHeadsAtOnce) {
    of.n_heads = min(kHeadsAtOnce, group - h0);
    const int first_head = kv_head * group + h0;
    __syncthreads();
    of.load_queries(q + t * s.q_stride + first_head * of.dim(), s.scale);
    __syncthreads();
    of.score_keys(keys);
    __syncthreads();
    const int64_t first_of = (t * s.n_heads + first_head) * max_splits + split;
    for (int h = threadIdx.x / 32; h < kHeadsAtOnce; h += kSplitThreads / 32) {
      if (h < of.n_heads) of.weigh_keys(h, stats + (first_of + h * max_splits) * 2);
    }
    __syncthreads();
    of.sum_values(keys + s.layer_numbers(), part + first_of * of.dim(), int64_t(max_splits) * of.dim());
  }
}

// The splits of each head, added in their order.  Grid: [heads, tokens].
__device__ inline void attend_combine(const GpuAttentionShape& s, const GpuToken* tokens, const float* part, const float* stats,
                                      int max_splits, uint16_t* out, int64_t out_stride) {
  const int64_t t = blockIdx.y;
  const int head = blockIdx.x;
  const int position = tokens[t].position;
  const int first_seen = s.window > 0 ? max(0, position - s.window + 1) : 0;
  const int first = first_seen / kGpuSplitKeys, last = position / kGpuSplitKeys;
  const float* const of_head = stats + (t * s.n_heads + head) * max_splits * 2;
  float highest = -INFINITY;
  for (int i = first + threadIdx.x % 32; i <= last; i += 32) highest = fmaxf(highest, of_head[2 * i]);
  highest = max_of_warp(highest);
  for (int column = threadIdx.x; column < s.head_dim; column += blockDim.x) {
    float sum = 0, weight = 0;
#pragma unroll 4
    for (int i = first; i <= last; ++i) {
      const float factor = __expf(of_head[2 * i] - highest);
      weight = fmaf(of_head[2 * i + 1], factor, weight);
      sum = fmaf(part[((t * s.n_heads + head) * max_splits + i) * s.head_dim + column], factor, sum);
    }
    out[t * out_stride + head * s.head_dim + column] = bf16_of(sum / weight);
  }
}

}  // namespace penstock::gpu

using namespace penstock;

extern "C" __global__ void attention_store(GpuAttentionShape shape, float* q, float* k, const float* v, const float* q_norm,
                                           const float* k_norm, const float* angles, const GpuToken* tokens,
                                           const int32_t* pages, uint16_t* kv, uint64_t page_numbers) {
  penstock::gpu::wait_for_turn();
  gpu::store_heads(shape, q, k, v, q_norm, k_norm, angles, tokens, pages, kv, page_numbers);
}

#define PENSTOCK_ATTENTION_SPLIT(NAME, DIM)                                                                              \
  extern "C" __global__ void __launch_bounds__(gpu::kSplitThreads)                                                       \
      NAME(GpuAttentionShape shape, const float* q, const GpuToken* tokens, const int32_t* pages, const uint16_t* kv,    \
           uint64_t page_numbers, float* part, float* stats, int32_t max_splits) {                                       \
    gpu::wait_for_turn();                                                                                                \
    gpu::attend_split<DIM>(shape, q, tokens, pages, kv, page_numbers, part, stats, max_splits);                          \
  }
PENSTOCK_ATTENTION_SPLIT(attention_split, 0)
PENSTOCK_ATTENTION_SPLIT(attention_split_64, 64)
PENSTOCK_ATTENTION_SPLIT(attention_split_128, 128)

extern "C" __global__ void attention_combine(GpuAttentionShape shape, const GpuToken* tokens, const float* part,
                                             const float* stats, int32_t max_splits, uint16_t* out, int64_t out_stride) {
  penstock::gpu::wait_for_turn();
  gpu::attend_combine(shape, tokens, part, stats, max_splits, out, out_stride);
}

// Copies what one page holds to another.  Grid: any.
extern "C" __global__ void copy_page(uint16_t* kv, uint64_t page_numbers, int32_t from, int32_t to) {
  penstock::gpu::wait_for_turn();
  const uint16_t* const source = kv + uint64_t(from) * page_numbers;
  uint16_t* const target = kv + uint64_t(to) * page_numbers;
  for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < page_numbers; i += uint64_t(gridDim.x) * blockDim.x) {
    target[i] = source[i];
  }
}
