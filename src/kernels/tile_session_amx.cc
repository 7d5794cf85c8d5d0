#include <immintrin.h>

#include <cstdint>

#include "kernels/tile_session.h"

namespace penstock {

// Intel's manual, volume 1, section 18.3: palette 1, then the bytes of a row and the rows of each
// tile.
TileSession::TileSession(const std::array<TileShape, 8>& shapes) {
  alignas(64) struct {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } config;
  static_assert(sizeof config == 64);
  for (size_t tile = 0; tile < shapes.size(); ++tile) {
    config.row_bytes[tile] = shapes[tile].row_bytes;
    config.rows[tile] = shapes[tile].rows;
  }
  // g++ 12 takes the instruction to read 8 bytes of the 64, and drops the stores of the rest.
  asm volatile("" : : "m"(config));
  _tile_loadconfig(&config);
}

TileSession::~TileSession() { _tile_release(); }

}  // namespace penstock
