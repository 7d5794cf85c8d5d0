// How GPU matmuls cut their work (tile_product.cuh), for those who launch them.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr int kGpuTileRows = 16;
inline constexpr int kGpuTileTokens = 8;
inline constexpr int kGpuTileWarps = 8;  // of a thread block
inline constexpr uint32_t kGpuTileThreads = 32 * kGpuTileWarps;

// Assignments of tokens to experts whose outputs one thread block adds up itself.
inline constexpr int kGpuMostCombined = 64;

// Tiles of tokens that a thread block takes at once, of the two numbers that kernels are compiled
// for.
constexpr int64_t gpu_token_tiles(int64_t most_tokens) {
  return most_tokens <= kGpuTileTokens ? 1 : 8;
}

}  // namespace penstock
