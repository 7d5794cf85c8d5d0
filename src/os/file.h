// Files as weights are read from them: opened once, read at offsets, or mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "os/file_handle.h"

namespace penstock {

// A regular file open for reading. Move-only; closed at the end. Reads are thread-safe.
class File {
 public:
  // A folder or device is an error: nothing here is meant to wait for a pipe.
  static Result<File> open(const std::filesystem::path& path);

  File(File&& other) noexcept
      : fd_(std::exchange(other.fd_, kNoFile)), size_(other.size_), path_(std::move(other.path_)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(size_, other.size_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~File();

  uint64_t size() const { return size_; }  // bytes, when it was opened
  const std::filesystem::path& path() const { return path_; }

  // Fills `out` from `offset` on. A file that ends earlier is an error with the file, what was
  // wanted and what was got.
  Result<void> read_exact(uint64_t offset, std::span<std::byte> out) const;

 private:
  friend class DirectFile;
  friend class Mapping;
  File(FileHandle fd, uint64_t size, std::filesystem::path path)
      : fd_(fd), size_(size), path_(std::move(path)) {}

  FileHandle fd_;
  uint64_t size_;
  std::filesystem::path path_;
};

// A whole file mapped read-only, shared with the page cache. Move-only; unmapped at the end. A file
// that is cut short while mapped ends the process at the next touch, as mappings do.
class Mapping {
 public:
  static Result<Mapping> open(const std::filesystem::path& path);

  Mapping(Mapping&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), tells_cached_(other.tells_cached_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(tells_cached_, other.tells_cached_);
    return *this;
  }
  ~Mapping();

  std::span<const std::byte> bytes() const { return bytes_; }  // empty for an empty file

  // Whether the page cache holds all of these bytes; false too where the kernel does not tell, as
  // of files that this process could not write.
  bool is_cached(uint64_t offset, size_t n) const;

  // Wishes: the kernel then reads no more than what is touched,
  void expect_random_reads() const;
  // and begins to read these bytes.
  void begin_to_read(uint64_t offset, size_t n) const;

 private:
  explicit Mapping(std::span<const std::byte> bytes, bool tells_cached = false)
      : bytes_(bytes), tells_cached_(tells_cached) {}

  std::span<const std::byte> bytes_;
  bool tells_cached_ = false;
};

// Whether there is anything at `path`; false too where that cannot be told.
bool path_exists(const std::filesystem::path& path);

// The file's bytes as text; a file of more than `max_bytes` is refused before it is read.
Result<std::string> read_whole_file(const std::filesystem::path& path, uint64_t max_bytes);

}  // namespace penstock
