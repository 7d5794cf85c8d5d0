// A RouterSpec as a GPU kernel takes it. For nvcc too: plain C++20.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr int kGpuMostExperts = 512;
inline constexpr int kGpuMostChoices = 32;
inline constexpr int kGpuRouterTokens = 8;  // that a thread block takes

// Through which a router's kernel asks the host for experts that have no slot: in page-locked
// memory. The kernel writes `layer`, then `request`, one more than the last, and waits until
// `reply` is the same; for half a second, then it sets `failed` and goes on.
struct GpuExpertMailbox {
  uint32_t request = 0;
  int32_t layer = 0;
  uint32_t failed = 0;
  uint32_t of_the_gpu[29] = {};
  uint32_t reply = 0;
  uint32_t of_the_host[31] = {};
};
inline constexpr int kGpuMostLogged = 64;  // assignments of a layer whose experts the host is told

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
