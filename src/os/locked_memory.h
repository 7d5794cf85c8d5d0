// Memory that the kernel may not move to disk: for banks that only the CPU reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

#include "base/result.h"

namespace penstock {

inline constexpr uint64_t kNoMemlockLimit = std::numeric_limits<uint64_t>::max();

// Bytes that this process may lock in all (RLIMIT_MEMLOCK); kNoMemlockLimit where nothing limits
// it, or the process may lock memory beyond it (CAP_IPC_LOCK, not one that a user namespace of a
// container gave). Reads /proc/self below `root` (tests bring their own).
uint64_t memlock_limit(const std::filesystem::path& root = "/");

// Bytes that this process has locked now; 0 when the kernel does not say.
uint64_t locked_memory_bytes(const std::filesystem::path& root = "/");

// A stretch of memory kept in RAM. Move-only; unlocked at the end, before the memory itself goes.
class LockedRange {
 public:
  // Brings all of `bytes` into RAM and keeps it there. `bytes` begins at an OS page; the last one
  // it touches is locked whole, and no OS page may be in two ranges, for locks do not add up. When
  // the kernel refuses, nothing is locked, and the error says what the limit is and how to raise
  // it.
  static Result<LockedRange> lock(std::span<std::byte> bytes);

  LockedRange(LockedRange&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  LockedRange& operator=(LockedRange&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~LockedRange();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit LockedRange(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

}  // namespace penstock
