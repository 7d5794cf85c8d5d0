// Paged attention on a GPU: the contracts are attention_gpu.h's.
#include "kernels/gpu/codecs.cuh"
#include "kernels/gpu/numbers.cuh"
#include "kernels/attention/gpu_shape.h"

namespace penstock::gpu {

constexpr int kSplitThreads = 256;
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

// One split of the keys that a token sees, for the heads of one kv head.  Grid: [splits, kv heads, tokens].
// part [tokens, heads, splits, head_dim]: sum of p v; stats [tokens, heads, splits, 2]: the highest score, sum of p.
__device__ inline void attend_split(const GpuAttentionShape& s, const float* q, const GpuToken* tokens, const int32_t* pages,
                                    const uint16_t* kv, uint64_t page_numbers, float* part, float* stats, int max_splits) {
  extern __shared__ float memory[];
  const int group = s.n_heads / s.n_kv_heads;
  float* const queries = memory;                             // [group, head_dim]
  float* const scores = queries + group * s.head_dim;        // [group, kSplitKeys]
  __shared__ const uint16_t* rows[kGpuSplitKeys / kGpuPageTokens];
  const int64_t t = blockIdx.z;
  const int kv_head = blockIdx.y, split = blockIdx.x;
  const GpuToken token = tokens[t];
  const int first_seen = s.window > 0 ? max(0, token.position - s.window + 1) : 0;
  const int begin = split * kGpuSplitKeys;
  const int end = min(begin + kGpuSplitKeys, token.position + 1);
  if (begin >= end || end <= first_seen) return;  // nothing that the token sees: combine knows

  if (threadIdx.x < kGpuSplitKeys / kGpuPageTokens && begin + threadIdx.x * kGpuPageTokens < end) {
    const int page = pages[token.first_page + begin / kGpuPageTokens + threadIdx.x];
    rows[threadIdx.x] = kv + uint64_t(page) * page_numbers + uint64_t(s.layer) * 2 * s.layer_numbers() +
                        uint64_t(kv_head) * kGpuPageTokens * s.head_dim;
  }
  const float* const from = q + t * s.q_stride + kv_head * group * s.head_dim;
  for (int i = threadIdx.x; i < group * s.head_dim; i += kSplitThreads) {
    // As the products of the class `gpu` take them: bf16. The scale is a float's.
    queries[i] = float_of(bf16_of(from[i])) * s.scale;
  }
  __syncthreads();

  // A thread, a key.
  {
    const int key = threadIdx.x;
    const bool is_seen = begin + key < end && begin + key >= first_seen;
    for (int h0 = 0; h0 < group; h0 += 8) {
      float sums[8] = {};
      const int n = min(8, group - h0);
      if (is_seen) {
        const uint16_t* const k = rows[key / kGpuPageTokens] + (key % kGpuPageTokens) * s.head_dim;
        for (int i = 0; i < s.head_dim; i += 8) {
          uint32_t pairs[4];
          if (s.head_dim % 8 == 0) {
            load_aligned(reinterpret_cast<const uint8_t*>(k + i), pairs);
          } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              const int at = i + 2 * j;
              pairs[j] = (at < s.head_dim ? k[at] : 0) | (at + 1 < s.head_dim ? uint32_t(k[at + 1]) << 16 : 0);
            }
          }
#pragma unroll
          for (int h = 0; h < 8; ++h) {
            if (h >= n) break;
            const float* const query = queries + (h0 + h) * s.head_dim + i;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              if (i + 2 * j < s.head_dim) sums[h] = fmaf(query[2 * j], bf16_bits(pairs[j] & 0xFFFF), sums[h]);
              if (i + 2 * j + 1 < s.head_dim) sums[h] = fmaf(query[2 * j + 1], __uint_as_float(pairs[j] & 0xFFFF0000u), sums[h]);
            }
          }
        }
      }
#pragma unroll
      for (int h = 0; h < 8; ++h) {
        if (h < n) scores[(h0 + h) * kGpuSplitKeys + key] = is_seen ? sums[h] : -INFINITY;
      }
    }
  }
  __syncthreads();

  // A warp, a head: p = e^(score - highest).
  for (int h = threadIdx.x / 32; h < group; h += kSplitThreads / 32) {
    float* const of_head = scores + h * kGpuSplitKeys;
    float highest = -INFINITY;
    for (int i = threadIdx.x % 32; i < kGpuSplitKeys; i += 32) highest = fmaxf(highest, of_head[i]);
    highest = max_of_warp(highest);
    float sum = 0;
    for (int i = threadIdx.x % 32; i < kGpuSplitKeys; i += 32) {
      const float p = __expf(of_head[i] - highest);
      of_head[i] = p;
      sum += p;
    }
    sum = sum_of_warp(sum);
    if (threadIdx.x % 32 == 0) {
      float* const to = stats + ((t * s.n_heads + kv_head * group + h) * max_splits + split) * 2;
      to[0] = highest;
      to[1] = sum;
    }
  }
  __syncthreads();

  // A thread, a column of the values, for up to 8 heads at once; where heads are small several threads share the keys.
  const int n_columns = s.head_dim;
  const int first_key = max(0, first_seen - begin), n_keys = end - begin;
  const uint64_t to_values = s.layer_numbers();
  for (int at = threadIdx.x; at < n_columns * ((group + 7) / 8); at += kSplitThreads) {
    const int column = at % n_columns, h0 = at / n_columns * 8;
    const int n = min(8, group - h0);
    float sums[8] = {};
    for (int key = first_key; key < n_keys; ++key) {
      const float value = float_of(rows[key / kGpuPageTokens][to_values + (key % kGpuPageTokens) * s.head_dim + column]);
#pragma unroll
      for (int h = 0; h < 8; ++h) {
        if (h < n) sums[h] = fmaf(scores[(h0 + h) * kGpuSplitKeys + key], value, sums[h]);
      }
    }
#pragma unroll
    for (int h = 0; h < 8; ++h) {
      if (h < n) part[((t * s.n_heads + kv_head * group + h0 + h) * max_splits + split) * s.head_dim + column] = sums[h];
    }
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
  for (int i = first; i <= last; ++i) highest = fmaxf(highest, of_head[2 * i]);
  for (int column = threadIdx.x; column < s.head_dim; column += blockDim.x) {
    float sum = 0, weight = 0;
    for (int i = first; i <= last; ++i) {
      const float factor = __expf(of_head[2 * i] - highest);
      weight += of_head[2 * i + 1] * factor;
      sum += part[((t * s.n_heads + head) * max_splits + i) * s.head_dim + column] * factor;
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

extern "C" __global__ void __launch_bounds__(256) attention_split(GpuAttentionShape shape, const float* q, const GpuToken* tokens,
                                                                  const int32_t* pages, const uint16_t* kv,
                                                                  uint64_t page_numbers, float* part, float* stats,
                                                                  int32_t max_splits) {
  penstock::gpu::wait_for_turn();
  gpu::attend_split(shape, q, tokens, pages, kv, page_numbers, part, stats, max_splits);
}

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
