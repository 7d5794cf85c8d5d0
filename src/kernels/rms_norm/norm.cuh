// What every kernel that norms a row does in the same order, so that a row's bits do not depend on which one did it.
#pragma once

#include "kernels/gpu/numbers.cuh"

namespace penstock::gpu {

constexpr int kNormThreads = 256;
constexpr int kNormWarps = kNormThreads / 32;

// 1 / rms of n rows: factors[i], of a row that begins at row_of(i). By kNormThreads threads, all of them; MOST >= n. What is in
// `factors` may be read once this returns.
template <class RowOf, int MOST>
__device__ inline void norm_factors(RowOf row_of, int n, int cols, float eps, float (&sums)[MOST][kNormWarps],
                                    float (&factors)[MOST]) {
  constexpr int kAtOnce = 8;
#pragma unroll 2
  for (int i = 0; i < n; ++i) {
    const float* const row = row_of(i);
    float sum = 0;
#pragma unroll 1
    for (int first = threadIdx.x; first < cols; first += kAtOnce * kNormThreads) {
      float numbers[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int at = first + k * kNormThreads;
        numbers[k] = at < cols ? row[at] : 0;
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) sum = fmaf(numbers[k], numbers[k], sum);
    }
    sum = sum_of_warp(sum);
    if (threadIdx.x % 32 == 0) sums[i][threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x < n) {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kNormWarps; ++warp) sum += sums[threadIdx.x][warp];
    factors[threadIdx.x] = rsqrtf(sum / float(cols) + eps);
  }
  __syncthreads();
}

__device__ inline float normed(float number, float factor, float weight) { return number * factor * weight; }

}  // namespace penstock::gpu
