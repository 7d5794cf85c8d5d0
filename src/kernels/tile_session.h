// AMX's tile registers, which a thread shapes before it multiplies and gives up afterwards: while
// they are in use the OS saves 8 KiB more at each change of threads.
#pragma once

#include <array>
#include <cstdint>

namespace penstock {

struct TileShape {
  uint8_t rows = 16;
  uint8_t row_bytes = 64;
};

// While one lives, the thread's eight tiles have these shapes. One at a time on a thread; only
// where Isa::kAmx is supported.
class TileSession {
 public:
  explicit TileSession(const std::array<TileShape, 8>& shapes = {});
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
  ~TileSession();
};

}  // namespace penstock
