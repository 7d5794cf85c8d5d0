#include <immintrin.h>

#include "kernels/machine_limits/limit_loops.h"

namespace penstock {
namespace {

constexpr size_t kPrefetchBytes = 4096;

// Twelve chains hide the latency of two units (4 or 5 cycles each) with registers to spare.
constexpr int kChains = 12;

void run_float32(int64_t n_rounds, float* sink) {
  // x = x / 2 + 1/2 goes to 1 and stays: never subnormal, never infinite.
  const __m512 half = _mm512_set1_ps(0.5F + *sink);
  __m512 chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t n = 0; n < n_rounds; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm512_fmadd_ps(chain[i], half, half);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[0] = _mm512_add_ps(chain[0], chain[i]);
  *sink = _mm512_cvtss_f32(chain[0]);
}

void run_int8(int64_t n_rounds, float* sink) {
  const __m512i codes = _mm512_set1_epi8(static_cast<char>(1 + static_cast<int>(*sink)));
  __m512i chain[kChains] = {};
  for (int64_t n = 0; n < n_rounds; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm512_dpbusd_epi32(chain[i], codes, codes);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[0] = _mm512_xor_si512(chain[0], chain[i]);
  *sink = static_cast<float>(_mm512_reduce_add_epi32(chain[0]));
}

}  // namespace

ArithmeticLoop float32_loop_avx512() { return {run_float32, 2.0 * 16 * kChains}; }
ArithmeticLoop int8_loop_avx512() { return {run_int8, 2.0 * 64 * kChains}; }

uint64_t read_all_avx512(std::span<const std::byte> bytes) {
  __m512i sums[4] = {};
  for (size_t at = 0; at + kReadStep <= bytes.size(); at += kReadStep) {
    const std::byte* const from = bytes.data() + at;
#pragma GCC unroll 8
    for (size_t i = 0; i < kReadStep / 64; ++i) {
      _mm_prefetch(from + kPrefetchBytes + 64 * i, _MM_HINT_T0);
      sums[i % 4] = _mm512_add_epi64(sums[i % 4], _mm512_loadu_si512(from + 64 * i));
    }
  }
  const __m512i sum =
      _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]));
  // The reduction of <immintrin.h> is one of signed numbers, which may not overflow.
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, sum);
  uint64_t total = 0;
  for (const uint64_t lane : lanes) total += lane;
  return total;
}

}  // namespace penstock
