// Files for this user alone that are written and read at any place: what a store keeps over
// restarts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"

namespace penstock {

// Makes the folder, and those above it, where they are missing; nobody else may look into it. One
// that is there stays as it is.
Result<void> make_private_folder(const std::filesystem::path& folder);

// An interface, so that tests can bring files that fail. Thread-compatible.
class PrivateFile {
 public:
  virtual ~PrivateFile() = default;

  virtual Result<uint64_t> size() const = 0;
  // What lies behind the end is cut off; what is new reads as zeros, and takes no space on the disk
  // before it is written.
  virtual Result<void> resize(uint64_t bytes) = 0;
  // After an error some of the bytes may have been written.
  virtual Result<void> write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // A file that ends earlier is an error.
  virtual Result<void> read(uint64_t offset, std::span<std::byte> out) const = 0;
};

enum class WriteThrough : uint8_t {
  kPageCache,
  // Past the page cache where the file system allows it; offsets, sizes and addresses are multiples
  // of kDirectAlignment (os/direct_io.h).
  kDirect,
};

using OpenPrivateFile = std::function<Result<std::unique_ptr<PrivateFile>>(
    const std::filesystem::path& path, WriteThrough through)>;

// Opens the file, or makes it; from then on only this user may read it.
Result<std::unique_ptr<PrivateFile>> open_private_file(const std::filesystem::path& path,
                                                       WriteThrough through);

}  // namespace penstock
