// AMX's tiles in software: what an *_amx.cc file is compiled with, through -include, so that its
// kernels are tested on processors that have AVX-512 and bf16 but no tiles. Slow, and strict: a
// product of tiles whose shapes do not fit ends the program, as the instruction would.
//
// Intel's manual, volume 1, chapter 18, and volume 2, TDP*. The order in which hardware adds the
// products of bf16 inside a tile is its own; tests hold it to bounds.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace software_tiles {

inline constexpr int kTiles = 8;
inline constexpr int kRows = 16;
inline constexpr int kRowBytes = 64;

// What TILECFG and the tiles of a thread hold.
struct Tiles {
  struct Config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config;
  uint8_t bytes[kTiles][kRows][kRowBytes];
};
inline thread_local Tiles tiles;

inline void must(bool holds) {
  if (!holds) std::abort();
}

// Rows and bytes of a row of a tile that has been configured.
inline int rows_of(int tile) {
  must(tiles.config.palette == 1 && tile >= 0 && tile < kTiles && tiles.config.rows[tile] > 0);
  return tiles.config.rows[tile];
}
inline int row_bytes_of(int tile) { return tiles.config.row_bytes[tile]; }

inline void configure(const void* config) {
  std::memcpy(&tiles.config, config, sizeof tiles.config);
  for (int tile = 0; tile < kTiles; ++tile) {
    must(tiles.config.rows[tile] <= kRows && tiles.config.row_bytes[tile] <= kRowBytes);
  }
  std::memset(tiles.bytes, 0, sizeof tiles.bytes);
}
inline void release() { tiles = {}; }

inline void zero(int tile) {
  rows_of(tile);
  std::memset(tiles.bytes[tile], 0, sizeof tiles.bytes[tile]);
}
inline void load(int tile, const void* from, int64_t stride) {
  zero(tile);
  const auto* const bytes = static_cast<const char*>(from);
  for (int row = 0; row < rows_of(tile); ++row) {
    std::memcpy(tiles.bytes[tile][row], bytes + row * stride, row_bytes_of(tile));
  }
}
inline void store(int tile, void* to, int64_t stride) {
  auto* const bytes = static_cast<char*>(to);
  for (int row = 0; row < rows_of(tile); ++row) {
    std::memcpy(bytes + row * stride, tiles.bytes[tile][row], row_bytes_of(tile));
  }
}

template <class T>
T number(int tile, int row, int i) {
  T value;
  std::memcpy(&value, tiles.bytes[tile][row] + i * int{sizeof(T)}, sizeof value);
  return value;
}
template <class T>
void set_number(int tile, int row, int i, T value) {
  std::memcpy(tiles.bytes[tile][row] + i * int{sizeof(T)}, &value, sizeof value);
}

// sums [M, N] of 4 bytes, a [M, K] and b [K, N] of groups of 4 bytes: shapes must fit.
inline void check_shapes(int sums, int a, int b) {
  must(rows_of(sums) == rows_of(a) && row_bytes_of(sums) == row_bytes_of(b) &&
       row_bytes_of(a) == 4 * rows_of(b));
}

// TDPBSSD, TDPBSUD: sums += a * b, four products of A and B at a time.
template <class A, class B>
void multiply_bytes(int sums, int a, int b) {
  check_shapes(sums, a, b);
  for (int m = 0; m < rows_of(sums); ++m) {
    for (int n = 0; n < row_bytes_of(sums) / 4; ++n) {
      auto sum = number<int32_t>(sums, m, n);
      for (int k = 0; k < row_bytes_of(a); ++k) {
        sum += int32_t{number<A>(a, m, k)} * int32_t{number<B>(b, k / 4, 4 * n + k % 4)};
      }
      set_number(sums, m, n, sum);
    }
  }
}

inline float bf16(int tile, int row, int i) {
  const uint32_t bits = uint32_t{number<uint16_t>(tile, row, i)} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// TDPBF16PS: even and odd products are summed apart, and then added.
inline void multiply_bf16(int sums, int a, int b) {
  check_shapes(sums, a, b);
  for (int m = 0; m < rows_of(sums); ++m) {
    for (int n = 0; n < row_bytes_of(sums) / 4; ++n) {
      float halves[2] = {};
      for (int k = 0; k < row_bytes_of(a) / 2; ++k) {
        float& half = halves[k % 2];
        half = std::fma(bf16(a, m, k), bf16(b, k / 2, 2 * n + k % 2), half);
      }
      set_number(sums, m, n, number<float>(sums, m, n) + (halves[0] + halves[1]));
    }
  }
}

}  // namespace software_tiles

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbsud
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) software_tiles::configure(config)
#define _tile_release() software_tiles::release()
#define _tile_zero(tile) software_tiles::zero(tile)
#define _tile_loadd(tile, from, stride) software_tiles::load(tile, from, stride)
#define _tile_stored(tile, to, stride) software_tiles::store(tile, to, stride)
#define _tile_dpbssd(sums, a, b) (software_tiles::multiply_bytes<int8_t, int8_t>(sums, a, b))
#define _tile_dpbsud(sums, a, b) (software_tiles::multiply_bytes<int8_t, uint8_t>(sums, a, b))
#define _tile_dpbf16ps(sums, a, b) software_tiles::multiply_bf16(sums, a, b)
