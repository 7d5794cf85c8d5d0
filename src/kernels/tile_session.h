// AMX's tile registers, which a thread shapes before it multiplies and gives up afterwards: while
// they are in use the OS saves 8 KiB more at each change of threads.
#pragma once

namespace penstock {

// While one lives, the thread's eight tiles are 16 rows of 64 bytes each. One at a time on a
// thread; only where Isa::kAmx is supported.
class TileSession {
 public:
  TileSession();
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
  ~TileSession();
};

}  // namespace penstock
