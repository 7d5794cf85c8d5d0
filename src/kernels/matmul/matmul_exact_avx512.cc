// The AVX-512 kernels of the exact product: the tile loop, and the table of all.
#include "kernels/matmul/lanes_avx512.h"

namespace penstock {
namespace {

// 6 tokens x 4 rows: 24 sums, 4 weights and a token's numbers fill 29 of the 32 registers, and ten
// loads feed 24 multiplications.
constexpr int kTileTokens = 6;
static_assert(kTileTokens <= kMostTileTokens);

template <int T>
void multiply_tile(const float* tile, int64_t n_cols, const float* x, int64_t x_stride,
                   const TileCarry& carry, const TileResults& results) {
  Lanes acc[T][kTileRows];
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      acc[t][r] =
          carry.first ? zero_lanes() : load_lanes(carry.lanes + (t * kTileRows + r) * kLaneCount);
    }
  }
  const auto step = [&](auto load_tokens) __attribute__((always_inline)) {
    Lanes weights[kTileRows];
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) weights[r] = load_lanes(tile + r * kLaneCount);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const Lanes tokens = load_tokens(x + t * x_stride);
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        acc[t][r] = fma_lanes(tokens, weights[r], acc[t][r]);
      }
    }
    x += kLaneCount;
    tile += kTileRows * kLaneCount;
  };
  for (int64_t i = n_cols / kLaneCount; i > 0; --i) {
    step([](const float* p) __attribute__((always_inline)) { return load_lanes(p); });
  }
  if (const int64_t n = n_cols % kLaneCount; n > 0) {
    step([n](const float* p) __attribute__((always_inline)) { return load_first_lanes(p, n); });
  }
  if (carry.last) {
    finish_tile<T>(acc, results);
    return;
  }
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      store_lanes(carry.lanes + (t * kTileRows + r) * kLaneCount, acc[t][r]);
    }
  }
}

ExactKernels make_kernels() {
  ExactKernels kernels{
      .tile_tokens = kTileTokens,
      .multiply_tile = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>, multiply_tile<4>,
                        multiply_tile<5>, multiply_tile<6>},
  };
  add_plain_kernels_avx512(kernels);
  add_fp4_kernels_avx512(kernels);
  add_ggml_kernels_avx512(kernels);
  add_kquant_kernels_avx512(kernels);
  add_int4_kernels_avx512(kernels);
  return kernels;
}

}  // namespace

const ExactKernels& exact_kernels_avx512() {
  static const ExactKernels kernels = make_kernels();
  return kernels;
}

}  // namespace penstock
