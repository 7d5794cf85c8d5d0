// A RouterSpec as a GPU kernel takes it. For nvcc too: plain C++20.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr int kGpuMostExperts = 512;
inline constexpr int kGpuMostChoices = 32;
inline constexpr int kGpuRouterTokens = 8;  // that a thread block takes

struct GpuRouter {
  int32_t n_experts = 0;
  int32_t top_k = 0;
  int32_t sigmoid = 0;  // else softmax
  int32_t renormalize = 0;
  int32_t n_groups = 1;
  int32_t top_groups = 1;
  float scale = 1;
};

}  // namespace penstock
