#include <immintrin.h>

#include "kernels/machine_limits/limit_loops.h"

namespace penstock {
namespace {

constexpr size_t kPrefetchBytes = 4096;

// Twelve chains hide the latency of two FMA units (4 or 5 cycles each) with registers to spare.
constexpr int kChains = 12;

void run_float32(int64_t n_rounds, float* sink) {
  // x = x / 2 + 1/2 goes to 1 and stays: never subnormal, never infinite.
  const __m256 half = _mm256_set1_ps(0.5F + *sink);
  __m256 chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t n = 0; n < n_rounds; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm256_fmadd_ps(chain[i], half, half);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[0] = _mm256_add_ps(chain[0], chain[i]);
  *sink = _mm256_cvtss_f32(chain[0]);
}

}  // namespace

ArithmeticLoop float32_loop_avx2() { return {run_float32, 2.0 * 8 * kChains}; }

uint64_t read_all_avx2(std::span<const std::byte> bytes) {
  __m256i sums[4] = {};
  for (size_t at = 0; at + kReadStep <= bytes.size(); at += kReadStep) {
    const std::byte* const from = bytes.data() + at;
#pragma GCC unroll 16
    for (size_t i = 0; i < kReadStep / 32; ++i) {
      if (i % 2 == 0) _mm_prefetch(from + kPrefetchBytes + 32 * i, _MM_HINT_T0);
      const __m256i numbers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32 * i));
      sums[i % 4] = _mm256_add_epi64(sums[i % 4], numbers);
    }
  }
  const __m256i sum =
      _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

}  // namespace penstock
