// Files that must outlive a crash: written front to back, forced to the disk, and whole folders put
// in place at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "os/file_handle.h"

namespace penstock {

// A new file, written front to back. Move-only; closed at the end. Thread-compatible.
class OutputFile {
 public:
  // An existing file is an error.
  static Result<OutputFile> create(const std::filesystem::path& path);

  OutputFile(OutputFile&& other) noexcept
      : fd_(std::exchange(other.fd_, kNoFile)),
        path_(std::move(other.path_)),
        bytes_(other.bytes_) {}
  ~OutputFile();

  Result<void> append(std::span<const std::byte> bytes);
  Result<void> sync();  // returns when the disk has all that was appended

  uint64_t bytes() const { return bytes_; }  // appended so far

 private:
  OutputFile(FileHandle fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}

  FileHandle fd_;
  std::filesystem::path path_;
  uint64_t bytes_ = 0;
};

// Makes `text` a file's whole content, for what can be made again: nothing is forced to the disk,
// and what the file held is gone even where this fails.
Result<void> write_whole_file(const std::filesystem::path& path, std::string_view text);

// A lock that one process holds on a file; the kernel frees it when that process ends, however it
// ends. Move-only.
class FileLock {
 public:
  enum class Mode : uint8_t { kCreate, kExistingOnly };

  // nullopt when another holds it. With kExistingOnly a missing file is kNotFound.
  static Result<std::optional<FileLock>> try_acquire(const std::filesystem::path& path, Mode mode);

  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, kNoFile)) {}
  ~FileLock();

  // Whether `path` still names the file that is locked: it may have been removed, or replaced,
  // between opening and locking.
  bool is_at(const std::filesystem::path& path) const;

 private:
  explicit FileLock(FileHandle fd) : fd_(fd) {}

  FileHandle fd_;
};

// Forces the folder's own entries (names, not contents) to the disk.
Result<void> sync_folder(const std::filesystem::path& folder);

// What an ordinary user may still write to the file system that holds `folder`.
Result<uint64_t> free_disk_bytes(const std::filesystem::path& folder);

// Exchanges what two names on one file system stand for, at once: at no moment is either missing.
Result<void> swap_names(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace penstock
