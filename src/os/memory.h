// Anonymous memory straight from the kernel: reserved at once, committed page by page as it is
// first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "base/result.h"

namespace penstock {

enum class OsPages : uint8_t {
  kNormal,  // as the system is set
  kHuge,    // asks for 2 MiB OS pages; the kernel may not have them
  kSmall,   // refuses them: what mapped files have
};

// A private, zero-filled run of bytes, aligned to kAlignment. Move-only; unmapped at the end.
class AnonymousMemory {
 public:
  static constexpr size_t kAlignment = size_t{2} << 20;

  static Result<AnonymousMemory> reserve(size_t bytes, OsPages pages);

  AnonymousMemory() = default;
  AnonymousMemory(AnonymousMemory&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), mapped_(std::exchange(other.mapped_, {})) {}
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~AnonymousMemory();

  std::span<std::byte> bytes() const { return bytes_; }
  // Has the kernel commit `n` bytes from `offset` on now, in whole OS pages; their content stays. A
  // wish: where it is refused they come when they are first written, as ever. Other threads may use
  // the memory meanwhile.
  void commit(size_t offset, size_t n) const;

  // Gives up what would unmap the bytes: they stay until the process ends.
  void leak() {
    bytes_ = {};
    mapped_ = {};
  }

 private:
  AnonymousMemory(std::span<std::byte> bytes, std::span<std::byte> mapped)
      : bytes_(bytes), mapped_(mapped) {}

  std::span<std::byte> bytes_;   // what was asked for
  std::span<std::byte> mapped_;  // what the kernel gave, alignment slack included
};

// Bytes of RAM that could be had now without swapping: the kernel's estimate, cut to what the
// process's cgroup (v1 or v2) and the groups around it still allow, whose page cache counts as
// free. Reads /proc and the cgroup file systems below `root` (tests bring their own).
uint64_t available_memory_bytes(const std::filesystem::path& root = "/");

// The least that the process's cgroup and the groups around it allow in all, in use or not; nothing
// where none limits it.
std::optional<uint64_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

// All RAM that the kernel manages, in use or not; 0 when it does not say.
uint64_t total_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace penstock
