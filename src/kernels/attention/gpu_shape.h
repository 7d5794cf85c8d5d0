// What a GPU's attention kernels must know of a layer and of a step's tokens. For nvcc too: plain
// C++20.
#pragma once

#include <cstdint>

#include "kernels/gpu/host_device.h"

namespace penstock {

inline constexpr int kGpuPageTokens = 64;
inline constexpr int kGpuSplitKeys = kGpuPageTokens;  // that one thread block reads: a page

inline constexpr int kGpuSplitTokens = 8;  // that a thread block takes one after the other, at most

struct GpuAttentionShape {
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t layer = 0;
  int32_t window = 0;       // 0: all earlier tokens
  int32_t half = 0;         // numbers of a head that turn, halved
  int32_t interleaved = 0;  // RopePairs::kInterleaved
  int32_t q_stride = 0;     // numbers from one token's queries to the next's
  int32_t kv_stride = 0;    // the same, of keys and of values
  float eps = 0;            // of the head norms
  float scale = 1;          // of the scores

  // Keys, or values, of one layer in a page: [n_kv_heads, kGpuPageTokens, head_dim].
  PENSTOCK_HOST_DEVICE uint64_t layer_numbers() const {
    return static_cast<uint64_t>(n_kv_heads) * static_cast<uint64_t>(kGpuPageTokens) *
           static_cast<uint64_t>(head_dim);
  }
};

struct GpuToken {
  int32_t position = 0;
  int32_t first_page = 0;  // of its sequence, in the step's list of pages
};

}  // namespace penstock
