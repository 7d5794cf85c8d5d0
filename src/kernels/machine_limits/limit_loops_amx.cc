#include <immintrin.h>

#include "kernels/machine_limits/limit_loops.h"
#include "kernels/tile_session.h"

namespace penstock {
namespace {

// Four sums of two by two operands: as a blocked product has them, but nothing is loaded.
constexpr double kProductsARound = 4;

void zero_tiles() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

void run_bf16(int64_t n_rounds, float* sink) {
  const TileSession session;
  zero_tiles();
  for (int64_t n = 0; n < n_rounds; ++n) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float sums[256];
  _tile_stored(0, sums, 64);
  *sink = sums[0];
}

void run_int8(int64_t n_rounds, float* sink) {
  const TileSession session;
  zero_tiles();
  for (int64_t n = 0; n < n_rounds; ++n) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 5, 6);
    _tile_dpbssd(2, 4, 7);
    _tile_dpbssd(3, 5, 7);
  }
  alignas(64) int32_t sums[256];
  _tile_stored(0, sums, 64);
  *sink = static_cast<float>(sums[0]);
}

}  // namespace

// 16 by 16 sums over a tile's 64 bytes: 32 columns of bf16, 64 of int8.
ArithmeticLoop bf16_tiles_loop_amx() { return {run_bf16, kProductsARound * 2 * 16 * 16 * 32}; }
ArithmeticLoop int8_tiles_loop_amx() { return {run_int8, kProductsARound * 2 * 16 * 16 * 64}; }

}  // namespace penstock
