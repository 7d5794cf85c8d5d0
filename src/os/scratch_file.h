// A file for measurements and other work of the moment, which nothing can leave behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "base/result.h"
#include "os/file_handle.h"

namespace penstock {

// A file without a name in a folder of the caller's choice: its space is free again when the last
// who has it open is gone, however that happens. Written front to back. Move-only.
class ScratchFile {
 public:
  static Result<ScratchFile> create(const std::filesystem::path& folder);

  ScratchFile(ScratchFile&& other) noexcept
      : fd_(std::exchange(other.fd_, kNoFile)),
        folder_(std::move(other.folder_)),
        path_(std::move(other.path_)),
        bytes_(other.bytes_) {}
  ~ScratchFile();

  Result<void> append(std::span<const std::byte> bytes);
  // Returns when the disk has all that was appended, and asks the page cache to forget it.
  Result<void> settle();

  uint64_t bytes() const { return bytes_; }
  // By which it can be opened once more while this object lives.
  const std::filesystem::path& path() const { return path_; }

 private:
  ScratchFile(FileHandle fd, std::filesystem::path folder, std::filesystem::path path)
      : fd_(fd), folder_(std::move(folder)), path_(std::move(path)) {}

  FileHandle fd_;
  std::filesystem::path folder_;
  std::filesystem::path path_;
  uint64_t bytes_ = 0;
};

}  // namespace penstock
