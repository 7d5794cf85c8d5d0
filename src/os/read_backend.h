// What a ReadQueue has its pieces read by: io_uring, threads, or a test's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/direct_io.h"

namespace penstock {

// One read of the operating system's.
struct PieceRead {
  uint32_t id = 0;  // told back with its result
  const DirectFile* file = nullptr;
  uint64_t offset = 0;
  std::span<std::byte> out;
};

struct PieceResult {
  uint32_t id = 0;
  int64_t result = 0;  // bytes, which may be fewer than asked; 0 at the file's end; or -errno
};

// One thread at a time. Destroyed when nothing is in flight.
class ReadBackend {
 public:
  virtual ~ReadBackend() = default;

  virtual std::string_view name() const = 0;
  virtual size_t depth() const = 0;  // reads that may be in flight

  // Starts reads; with those in flight they are at most depth().
  virtual void start(std::span<const PieceRead> reads) = 0;
  // Appends the results of reads that have ended. With `wait`, called only while some are in
  // flight, it returns with one at least.
  virtual void collect(bool wait, std::vector<PieceResult>& results) = 0;
};

// Fails where the kernel or a sandbox does not grant io_uring.
Result<std::unique_ptr<ReadBackend>> make_uring_backend(size_t depth);
// Fails where the system refuses a thread. Its depth is the number of its threads, which is
// bounded.
Result<std::unique_ptr<ReadBackend>> make_thread_backend(size_t depth);

}  // namespace penstock
