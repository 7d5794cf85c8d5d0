// A file for measurements and other work of the moment, which nothing can leave behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "base/result.h"

namespace penstock {

// A file without a name in a folder of the caller's choice: its space is free again when the last
// who has it open is gone, however that happens. Written front to back. Move-only.
class ScratchFile {
 public:
  static Result<ScratchFile> create(const std::filesystem::path& folder);

  ScratchFile(ScratchFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        folder_(std::move(other.folder_)),
        bytes_(other.bytes_) {}
  ~ScratchFile();

  Result<void> append(std::span<const std::byte> bytes);
  // Returns when the disk has all that was appended, and asks the page cache to forget it.
  Result<void> settle();

  uint64_t bytes() const { return bytes_; }
  // By which it can be opened once more while this object lives.
  std::filesystem::path path() const;

 private:
  ScratchFile(int fd, std::filesystem::path folder) : fd_(fd), folder_(std::move(folder)) {}

  int fd_;
  std::filesystem::path folder_;
  uint64_t bytes_ = 0;
};

}  // namespace penstock
