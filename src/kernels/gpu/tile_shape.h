// How GPU matmuls cut their work (tile_product.cuh, few_tokens.cuh), for those who launch them. For
// nvcc too: plain C++20.
#pragma once

#include <cstdint>

#include "kernels/gpu/host_device.h"

namespace penstock {

inline constexpr int kGpuTileRows = 16;
inline constexpr int kGpuTileTokens = 8;
inline constexpr int kGpuTileWarps = 8;  // of a thread block
inline constexpr uint32_t kGpuTileThreads = 32 * kGpuTileWarps;

// Assignments of tokens to experts whose outputs one thread block adds up itself.
inline constexpr int kGpuMostCombined = 64;

// Few tokens wait in a thread block's shared memory, as bf16: so many columns of each at a time,
// whole runs of kGpuStagedRun, with a gap behind each token that keeps tokens in different banks.
inline constexpr int kGpuStagedNumbers = 22016;
inline constexpr int kGpuStagedRun = 2048;
inline constexpr int kGpuStagedGap = 32;

PENSTOCK_HOST_DEVICE constexpr int gpu_runs_of(int cols, int run) {
  return (cols + run - 1) / run * run;
}
PENSTOCK_HOST_DEVICE constexpr int gpu_staged_cols(int n_tokens, int cols) {
  const int most = (kGpuStagedNumbers / n_tokens - kGpuStagedGap) / kGpuStagedRun * kGpuStagedRun;
  const int wanted = gpu_runs_of(cols, kGpuStagedRun);
  return wanted < most ? wanted : most;
}
constexpr uint32_t gpu_staged_bytes(int n_tokens, int cols) {
  return static_cast<uint32_t>(n_tokens * (gpu_staged_cols(n_tokens, cols) + kGpuStagedGap)) * 2;
}

// The same for one warp, which takes at most kGpuWarpTokens at a time.
inline constexpr int kGpuWarpStagedNumbers = 2176;
inline constexpr int kGpuWarpStagedRun = 512;
inline constexpr int kGpuWarpTokens = 4;

PENSTOCK_HOST_DEVICE constexpr int gpu_warp_staged_cols(int n_tokens, int cols) {
  const int most =
      (kGpuWarpStagedNumbers / n_tokens - kGpuStagedGap) / kGpuWarpStagedRun * kGpuWarpStagedRun;
  const int wanted = gpu_runs_of(cols, kGpuWarpStagedRun);
  return wanted < most ? wanted : most;
}

// Tiles of tokens that a thread block takes at once where they are many.
inline constexpr int kGpuManyTiles = 8;

}  // namespace penstock
