// Paged attention on a GPU: the contracts are attention_gpu.h's.
#include "kernels/gpu/codecs.cuh"
#include "kernels/gpu/numbers.cuh"
#include "kernels/gpu/tile_product.cuh"
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

// Where the numbers of a layer's keys of a kv head begin in a page; its values lie layer_numbers() behind.
__device__ inline uint64_t keys_at(const GpuAttentionShape& s, int page, uint64_t page_numbers, int kv_head) {
  return uint64_t(page) * page_numbers + uint64_t(s.layer) * 2 * s.layer_numbers() + uint64_t(kv_head) * kGpuPageTokens * s.head_dim;
}

// Which keys of a split a token sees: [first, end).
struct Seen {
  int first, end;
  __device__ Seen(int first, int end) : first(first), end(end) {}
  __device__ Seen(const GpuAttentionShape& s, int position, int split) {
    const int first_seen = s.window > 0 ? max(0, position - s.window + 1) : 0;
    const int begin = split * kGpuSplitKeys;
    first = max(0, first_seen - begin);
    end = min(kGpuSplitKeys, position + 1 - begin);
  }
  __device__ bool any() const { return first < end; }
  __device__ bool has(int key) const { return key >= first && key < end; }
};

// ---- Heads of 64 and 128 numbers: a page's products on tensor cores.
//
// Scores are keys (16 rows a warp) times queries (8 columns, the heads). Weights times values: rows are the heads' weights
// twice, as bf16 and what bf16 left of them, whose sums are added: 16 bits of a weight count.
constexpr int kPageThreads = 256;
constexpr int kKeyWarps = kGpuSplitKeys / 16;

__device__ inline void copy_async(void* shared, const void* from, bool is_there) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  // 0 bytes of the source: zeros.
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}
__device__ inline void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four 8 x 8 matrices, transposed: those at the addresses of lanes 0 to 7, 8 to 15, 16 to 23 and 24 to 31.
__device__ inline void load_transposed(uint32_t (&to)[4], const uint16_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

template <int DIM>
struct Page {
  // Gaps keep rows in different banks.
  alignas(16) uint16_t values[kGpuSplitKeys][DIM + 8];
  alignas(16) uint16_t queries[kHeadsAtOnce][DIM + 32];
  alignas(16) uint16_t weights[2 * kHeadsAtOnce][kGpuSplitKeys + 8];
  float scores[kHeadsAtOnce][kGpuSplitKeys + 4];
};

// A lane's keys: rows lane / 4 and 8 more of its warp's 16, numbers 8 (4 i + lane % 4) and on.
template <int DIM>
struct LaneKeys {
  uint4 numbers[2][DIM / 32];

  __device__ static int row(int which) { return 16 * (threadIdx.x / 32) + threadIdx.x % 32 / 4 + 8 * which; }
  // `except`: a key that is not in the page yet.
  __device__ void load(const uint16_t* keys, const Seen& seen, int except) {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const bool is_there = threadIdx.x / 32 < kKeyWarps && seen.has(row(which)) && row(which) != except;
#pragma unroll
      for (int i = 0; i < DIM / 32; ++i) {
        numbers[which][i] = make_uint4(0, 0, 0, 0);
        if (is_there) numbers[which][i] = *reinterpret_cast<const uint4*>(keys + row(which) * DIM + 8 * (4 * i + threadIdx.x % 4));
      }
    }
  }
  __device__ void take(const uint16_t* key, int at) {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      if (row(which) != at) continue;
#pragma unroll
      for (int i = 0; i < DIM / 32; ++i) numbers[which][i] = *reinterpret_cast<const uint4*>(key + 8 * (4 * i + threadIdx.x % 4));
    }
  }
};

template <int DIM>
__device__ inline void load_values(Page<DIM>& page, const uint16_t* values, const Seen& seen, int except) {
  constexpr int kChunks = DIM / 8;
#pragma unroll
  for (int i = threadIdx.x; i < kGpuSplitKeys * kChunks; i += kPageThreads) {
    const int key = i / kChunks, at = 8 * (i % kChunks);
    if (key != except) copy_async(&page.values[key][at], values + key * DIM + at, seen.has(key));
  }
}

// A token's turn of up to 8 heads, whose queries and values are in `page` behind a barrier. Leaves parts and stats as
// attend_pages; all of a thread block.
template <int DIM>
__device__ inline void attend_page(Page<DIM>& page, const LaneKeys<DIM>& keys, const Seen& seen, int n_heads, float scale,
                                   float* part, float* stats, int max_splits) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < kKeyWarps) {
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < DIM / 32; ++i) {
      const uint4 a0 = keys.numbers[0][i], a1 = keys.numbers[1][i];
      const uint4 b = *reinterpret_cast<const uint4*>(&page.queries[lane / 4][8 * (4 * i + lane % 4)]);
      multiply_add(sums, a0.x, a1.x, a0.y, a1.y, b.x, b.y);
      multiply_add(sums, a0.z, a1.z, a0.w, a1.w, b.z, b.w);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) page.scores[2 * (lane % 4) + i % 2][LaneKeys<DIM>::row(i / 2)] = sums[i];
  }
  __syncthreads();
  if (warp < n_heads) {
    float scores[kGpuSplitKeys / 32];
    float highest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kGpuSplitKeys / 32; ++i) {
      scores[i] = seen.has(lane + 32 * i) ? page.scores[warp][lane + 32 * i] * scale : -INFINITY;
      highest = fmaxf(highest, scores[i]);
    }
    highest = max_of_warp(highest);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kGpuSplitKeys / 32; ++i) {
      const float weight = __expf(scores[i] - highest);
      const uint16_t most = bf16_of(weight);
      page.weights[warp][lane + 32 * i] = most;
      page.weights[warp + kHeadsAtOnce][lane + 32 * i] = bf16_of(weight - float_of(most));
      sum += weight;
    }
    sum = sum_of_warp(sum);
    if (lane == 0) {
      float* const to = stats + warp * max_splits * 2;
      to[0] = highest, to[1] = sum;
    }
  }
  __syncthreads();
  // 16 columns a warp.
  if (16 * warp < DIM) {
    float sums[2][4] = {};
#pragma unroll
    for (int k = 0; k < kGpuSplitKeys; k += 16) {
      uint32_t a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[i] = *reinterpret_cast<const uint32_t*>(&page.weights[lane / 4 + i % 2 * 8][k + 2 * (lane % 4) + i / 2 * 8]);
      }
      load_transposed(b, &page.values[k + lane % 16][16 * warp + lane / 16 * 8]);
      multiply_add(sums[0], a[0], a[1], a[2], a[3], b[0], b[1]);
      multiply_add(sums[1], a[0], a[1], a[2], a[3], b[2], b[3]);
    }
    const int head = lane / 4;
    if (head < n_heads) {
      float* const to = part + int64_t(head) * max_splits * DIM + 16 * warp + 2 * (lane % 4);
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        *reinterpret_cast<float2*>(to + 8 * tile) = make_float2(sums[tile][0] + sums[tile][2], sums[tile][1] + sums[tile][3]);
      }
    }
  }
}

// Heads of queries that nobody has stay as they were: their columns are not used.
template <int DIM>
__device__ inline void put_query(Page<DIM>& page, int head, const float* q) {
  for (int i = threadIdx.x % 32; i < DIM; i += 32) page.queries[head][i] = bf16_of(q[i]);
}

// One page of the keys that tokens see, for the heads of one kv head.  Grid: [splits, kv heads, tokens / kGpuSplitTokens].
// part [tokens, heads, splits, head_dim]: sum of p v; stats [tokens, heads, splits, 2]: the highest score, sum of p.
template <int DIM>
__device__ inline void attend_pages(const GpuAttentionShape& s, const float* q, const GpuToken* tokens, int n_tokens,
                                    const int32_t* pages, const uint16_t* kv, uint64_t page_numbers, float* part, float* stats,
                                    int max_splits) {
  __shared__ Page<DIM> page;
  const int group = s.n_heads / s.n_kv_heads;
  const int kv_head = blockIdx.y, split = blockIdx.x;
  const int warp = threadIdx.x / 32;
  LaneKeys<DIM> keys;
  int loaded = -1, n_loaded = 0;
  const int end = min(n_tokens, int(blockIdx.z + 1) * kGpuSplitTokens);
  for (int t = blockIdx.z * kGpuSplitTokens; t < end; ++t) {
    const GpuToken token = tokens[t];
    const Seen seen(s, token.position, split);
    if (!seen.any()) continue;  // combine knows
    __syncthreads();
    const int wanted = pages[token.first_page + split];
    if (wanted != loaded || seen.end > n_loaded) {
      // What the sequence's last token here sees: earlier ones see less. Behind that may lie anything.
      int last = t;
      while (last + 1 < end && tokens[last + 1].first_page == token.first_page) ++last;
      const Seen there(0, Seen(s, tokens[last].position, split).end);
      const uint16_t* const at = kv + keys_at(s, wanted, page_numbers, kv_head);
      keys.load(at, there, -1);
      load_values(page, at + s.layer_numbers(), there, -1);
      loaded = wanted, n_loaded = there.end;
      await_copies();
    }
    for (int h0 = 0; h0 < group; h0 += kHeadsAtOnce) {
      const int n_heads = min(kHeadsAtOnce, group - h0);
      const int first_head = kv_head * group + h0;
      if (h0 > 0) __syncthreads();
      if (warp < n_heads) put_query(page, warp, q + t * s.q_stride + (first_head + warp) * DIM);
      __syncthreads();
      const int64_t at = (int64_t(t) * s.n_heads + first_head) * max_splits + split;
      attend_page(page, keys, seen, n_heads, s.scale, part + at * DIM, stats + at * 2, max_splits);
    }
  }
}

// ---- Heads of any size: a page's products by ordinary arithmetic.
struct Split {
  float* queries;  // [kHeadsAtOnce, padded()]
  float* p;        // [kGpuSplitKeys, kHeadsAtOnce]: scores, then e^(score - highest)
  float* sums;     // [kHeadsAtOnce, dim()]: what the first half of the keys gave
  int head_dim;
  int n_heads;               // of the turn
  int first_key, n_keys;     // [first_key, n_keys) are seen

  __device__ int dim() const { return head_dim; }
  __device__ int padded() const { return (dim() + 15) / 16 * 16; }

  // Numbers [at, at + 8) of a row, 0 behind its end.
  __device__ void load_eight(const uint16_t* row, int at, uint32_t (&pairs)[4]) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = at + 2 * j;
      pairs[j] = (i < dim() ? row[i] : 0) | (i + 1 < dim() ? uint32_t(row[i + 1]) << 16 : 0);
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
#pragma unroll
      for (int at = 0; at < kMaxHeadDim; at += 16) {
        if (at >= padded()) break;
        uint32_t pairs[4];
        load_eight(keys + key * dim(), at + 8 * half, pairs);
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

  // Two numbers of a value from `column`, 0 behind the row's end.
  __device__ uint32_t load_two(const uint16_t* row, int column) const {
    return row[column] | (column + 1 < dim() ? uint32_t(row[column + 1]) << 16 : 0);
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
#pragma unroll
      for (int i = 0; i < kHalfKeys; i += kBatch) {
        uint32_t pairs[kBatch];
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const int key = half * kHalfKeys + i + j;
          pairs[j] = key < first_key || key >= n_keys || column >= dim() ? 0 : load_two(values + key * dim(), column);
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

// The same for heads of any size.  Grid: [splits, kv heads, tokens].
__device__ inline void attend_split(const GpuAttentionShape& s, const float* q, const GpuToken* tokens, const int32_t* pages,
                                    const uint16_t* kv, uint64_t page_numbers, float* part, float* stats, int max_splits) {
  extern __shared__ float4 shared[];
  const int group = s.n_heads / s.n_kv_heads;
  const int64_t t = blockIdx.z;
  const int kv_head = blockIdx.y, split = blockIdx.x;
  const GpuToken token = tokens[t];
  const Seen seen(s, token.position, split);
  if (!seen.any()) return;  // combine knows
  Split of;
  of.head_dim = s.head_dim;
  of.first_key = seen.first;
  of.n_keys = seen.end;
  of.queries = reinterpret_cast<float*>(shared);
  of.p = of.queries + kHeadsAtOnce * of.padded();
  of.sums = of.p + kGpuSplitKeys * kHeadsAtOnce;
  const uint16_t* const keys = kv + keys_at(s, pages[token.first_page + split], page_numbers, kv_head);
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

// A decode step's attention at once: store_heads, attend_split and, unless `arrived` is null, attend_combine, with the same
// bits. Every token is the newest of a sequence of its own.  Grid: as attend_split.
struct Newest {
  float* q;  // [tokens, heads]: read
  const float* k;
  const float* v;
  const float* q_norm;
  const float* k_norm;
  const float* angles;
};

// The last of a token's splits to end adds them.  arrived [tokens, kv heads]: 0 before and after.
__device__ inline bool is_last_of(int32_t* arrived, int n) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(arrived, 1) == n - 1;
    if (is_last) *arrived = 0;
  }
  __syncthreads();
  return is_last;
}

template <int DIM>
__device__ inline void combine_heads(int first_head, int n_heads, int first, int last, const float* part, const float* stats,
                                     int max_splits, uint16_t* out) {
  // What other thread blocks have just written must not come from an old line of this one's cache: __ldcg.
  for (int h = threadIdx.x / 32; h < n_heads; h += kPageThreads / 32) {
    const int lane = threadIdx.x % 32;
    const int head = first_head + h;
    const float* const of_head = stats + int64_t(head) * max_splits * 2;
    float highest = -INFINITY;
    for (int i = first + lane; i <= last; i += 32) highest = fmaxf(highest, __ldcg(of_head + 2 * i));
    highest = max_of_warp(highest);
    constexpr int kColumns = DIM / 32;
    float sums[kColumns] = {}, weight = 0;
#pragma unroll 4
    for (int i = first; i <= last; ++i) {
      const float factor = __expf(__ldcg(of_head + 2 * i) - highest);
      weight = fmaf(__ldcg(of_head + 2 * i + 1), factor, weight);
      const float* const of_split = part + (int64_t(head) * max_splits + i) * DIM + lane;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sums[c] = fmaf(__ldcg(of_split + 32 * c), factor, sums[c]);
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) out[head * DIM + lane + 32 * c] = bf16_of(sums[c] / weight);
  }
}

template <int DIM>
__device__ inline void attend_newest(const GpuAttentionShape& s, const Newest& newest, const GpuToken* tokens, const int32_t* pages,
                                     uint16_t* kv, uint64_t page_numbers, float* part, float* stats, int max_splits,
                                     int32_t* arrived, uint16_t* out, int64_t out_stride) {
  __shared__ Page<DIM> page;
  __shared__ alignas(16) uint16_t own_key[DIM];
  __shared__ float heads[kPageThreads / 32][DIM], norms[2][DIM], angles[DIM];
  const int group = s.n_heads / s.n_kv_heads;
  const int64_t t = blockIdx.z;
  const int kv_head = blockIdx.y, split = blockIdx.x;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // The step's inputs were there before its first kernel began, and so were keys and values of earlier steps: they are on
  // their way while this waits for its turn.
  const GpuToken token = tokens[t];
  const Seen seen(s, token.position, split);
  if (!seen.any()) {
    wait_for_turn();
    return;
  }
  const int own = split == token.position / kGpuSplitKeys ? seen.end - 1 : -1;  // which of the keys is the token's
  uint16_t* const keys = kv + keys_at(s, pages[token.first_page + split], page_numbers, kv_head);
  uint16_t* const values = keys + s.layer_numbers();
  LaneKeys<DIM> of_lane;
  of_lane.load(keys, seen, own);
  load_values(page, values, seen, own);
  if (threadIdx.x < DIM) {
    if (newest.q_norm != nullptr) norms[0][threadIdx.x] = newest.q_norm[threadIdx.x];
    if (newest.k_norm != nullptr) norms[1][threadIdx.x] = newest.k_norm[threadIdx.x];
    if (threadIdx.x < 2 * s.half) angles[threadIdx.x] = newest.angles[t * 2 * s.half + threadIdx.x];
  }
  wait_for_turn();
  __syncthreads();

  // A head that this warp norms and turns.
  const auto turned = [&](const float* from, const float* norm) {
    float* const mine = heads[warp];
    __syncwarp();
#pragma unroll
    for (int c = 0; c < DIM / 32; ++c) mine[lane + 32 * c] = from[lane + 32 * c];
    __syncwarp();
    if (norm != nullptr) norm_head(mine, DIM, norm, s.eps);
    rotate_head(mine, angles, angles + s.half, s.half, s.interleaved != 0);
    return mine;
  };
  if (own >= 0 && warp == kKeyWarps) {
    const float* const mine =
        turned(newest.k + t * s.kv_stride + kv_head * DIM, newest.k_norm != nullptr ? norms[1] : nullptr);
    for (int i = lane; i < DIM; i += 32) keys[own * DIM + i] = own_key[i] = bf16_of(mine[i]);
  }
  if (own >= 0 && warp == kKeyWarps + 1) {
    const float* const from = newest.v + t * s.kv_stride + kv_head * DIM;
    for (int i = lane; i < DIM; i += 32) values[own * DIM + i] = page.values[own][i] = bf16_of(from[i]);
  }
  for (int h0 = 0; h0 < group; h0 += kHeadsAtOnce) {
    const int n_heads = min(kHeadsAtOnce, group - h0);
    const int first_head = kv_head * group + h0;
    if (h0 > 0) __syncthreads();
    if (warp < n_heads) {
      put_query(page, warp, turned(newest.q + t * s.q_stride + (first_head + warp) * DIM, newest.q_norm != nullptr ? norms[0] : nullptr));
    }
    if (h0 == 0) await_copies();
    __syncthreads();
    if (h0 == 0) of_lane.take(own_key, own);
    const int64_t at = (t * s.n_heads + first_head) * max_splits + split;
    attend_page(page, of_lane, seen, n_heads, s.scale, part + at * DIM, stats + at * 2, max_splits);
  }
  if (arrived == nullptr) return;
  const int first = (s.window > 0 ? max(0, token.position - s.window + 1) : 0) / kGpuSplitKeys;
  const int last = token.position / kGpuSplitKeys;
  if (!is_last_of(arrived + t * s.n_kv_heads + kv_head, last - first + 1)) return;
  combine_heads<DIM>(kv_head * group, group, first, last, part + t * s.n_heads * max_splits * DIM,
                     stats + t * s.n_heads * max_splits * 2, max_splits, out + t * out_stride);
}

}  // namespace penstock::gpu

using namespace penstock;

extern "C" __global__ void attention_store(GpuAttentionShape shape, float* q, float* k, const float* v, const float* q_norm,
                                           const float* k_norm, const float* angles, const GpuToken* tokens,
                                           const int32_t* pages, uint16_t* kv, uint64_t page_numbers) {
  penstock::gpu::wait_for_turn();
  gpu::store_heads(shape, q, k, v, q_norm, k_norm, angles, tokens, pages, kv, page_numbers);
}

#define PENSTOCK_SPLIT_PARAMETERS                                                                                      \
  GpuAttentionShape shape, const float *q, const GpuToken *tokens, int32_t n_tokens, const int32_t *pages,             \
      const uint16_t *kv, uint64_t page_numbers, float *part, float *stats, int32_t max_splits

extern "C" __global__ void __launch_bounds__(gpu::kSplitThreads) attention_split(PENSTOCK_SPLIT_PARAMETERS) {
  gpu::wait_for_turn();
  gpu::attend_split(shape, q, tokens, pages, kv, page_numbers, part, stats, max_splits);
}
#define PENSTOCK_ATTENTION_PAGES(NAME, DIM)                                                                            \
  extern "C" __global__ void __launch_bounds__(gpu::kPageThreads) NAME(PENSTOCK_SPLIT_PARAMETERS) {                    \
    gpu::wait_for_turn();                                                                                              \
    gpu::attend_pages<DIM>(shape, q, tokens, n_tokens, pages, kv, page_numbers, part, stats, max_splits);              \
  }
PENSTOCK_ATTENTION_PAGES(attention_split_64, 64)
PENSTOCK_ATTENTION_PAGES(attention_split_128, 128)

#define PENSTOCK_ATTENTION_NEWEST(NAME, DIM)                                                                              \
  extern "C" __global__ void __launch_bounds__(gpu::kPageThreads)                                                         \
      NAME(GpuAttentionShape shape, float* q, const float* k, const float* v, const float* q_norm, const float* k_norm,   \
           const float* angles, const GpuToken* tokens, const int32_t* pages, uint16_t* kv, uint64_t page_numbers,        \
           float* part, float* stats, int32_t max_splits, int32_t* arrived, uint16_t* out, int64_t out_stride) {          \
    gpu::attend_newest<DIM>(shape, {q, k, v, q_norm, k_norm, angles}, tokens, pages, kv, page_numbers, part, stats,       \
                            max_splits, arrived, out, out_stride);                                                        \
  }
PENSTOCK_ATTENTION_NEWEST(attention_newest_64, 64)
PENSTOCK_ATTENTION_NEWEST(attention_newest_128, 128)

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
