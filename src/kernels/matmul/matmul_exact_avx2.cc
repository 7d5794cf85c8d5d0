// The AVX2 kernels of the exact product: the tile loop, and the table of all.
#include "kernels/matmul/lanes_avx2.h"

namespace penstock {
namespace {

// 3 tokens x 4 rows of eight lanes: 12 sums, a weight and three tokens' numbers fill the 16
// registers. Lanes 0 to 7 and 8 to 15 never meet before the end, so each half is a pass of its own
// over the tile, which the first cache level holds.
constexpr int kTileTokens = 3;
static_assert(kTileTokens <= kMostTileTokens);

// The sums of one half of the lanes; x, tile and carry point at that half.
template <int T>
[[gnu::always_inline]] inline void multiply_half(const float* tile, int64_t n_cols, int first_lane,
                                                 const float* x, int64_t x_stride,
                                                 __m256 (&acc)[T][kTileRows]) {
  const auto step = [&](auto load_tokens) __attribute__((always_inline)) {
    __m256 tokens[T];
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) tokens[t] = load_tokens(x + t * x_stride + first_lane);
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const __m256 weights = _mm256_loadu_ps(tile + r * kLaneCount + first_lane);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) acc[t][r] = _mm256_fmadd_ps(tokens[t], weights, acc[t][r]);
    }
    x += kLaneCount;
    tile += kTileRows * kLaneCount;
  };
  for (int64_t i = n_cols / kLaneCount; i > 0; --i) {
    step([](const float* p) __attribute__((always_inline)) { return _mm256_loadu_ps(p); });
  }
  if (const int64_t n = n_cols % kLaneCount; n > 0) {
    const __m256i mask = lanes_below(n, first_lane);
    step([mask](const float* p)
             __attribute__((always_inline)) { return _mm256_maskload_ps(p, mask); });
  }
}

template <int T>
void multiply_tile(const float* tile, int64_t n_cols, const float* x, int64_t x_stride,
                   const TileCarry& carry, const TileResults& results) {
  __m256 halves[2][T][kTileRows];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m256 acc[T][kTileRows];
    const auto carried = [&](int t, int r) __attribute__((always_inline)) {
      return carry.lanes + (t * kTileRows + r) * kLaneCount + int64_t{8} * half;
    };
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        acc[t][r] = carry.first ? _mm256_setzero_ps() : _mm256_loadu_ps(carried(t, r));
      }
    }
    multiply_half<T>(tile, n_cols, 8 * half, x, x_stride, acc);
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        halves[half][t][r] = acc[t][r];
        if (!carry.last) _mm256_storeu_ps(carried(t, r), acc[t][r]);
      }
    }
  }
  if (!carry.last) return;
  Lanes sums[T][kTileRows];
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) sums[t][r] = {halves[0][t][r], halves[1][t][r]};
  }
  finish_tile<T>(sums, results);
}

ExactKernels make_kernels() {
  ExactKernels kernels{
      .tile_tokens = kTileTokens,
      .multiply_tile = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>},
  };
  add_plain_kernels_avx2(kernels);
  add_fp4_kernels_avx2(kernels);
  add_ggml_kernels_avx2(kernels);
  add_kquant_kernels_avx2(kernels);
  add_int4_kernels_avx2(kernels);
  return kernels;
}

}  // namespace

const ExactKernels& exact_kernels_avx2() {
  static const ExactKernels kernels = make_kernels();
  return kernels;
}

}  // namespace penstock
