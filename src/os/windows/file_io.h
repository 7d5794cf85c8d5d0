// Reads and writes at offsets, whole, for handles opened with FILE_FLAG_OVERLAPPED: each call waits
// for its own end, so that threads may share a handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"
#include "os/file_handle.h"

namespace penstock {

// One read: bytes, which may be fewer than asked; 0 at the file's end; or -errno.
int64_t read_some_at(FileHandle file, uint64_t offset, std::span<std::byte> out);

Result<void> read_all_at(FileHandle file, uint64_t offset, std::span<std::byte> out,
                         const std::filesystem::path& path);

// Counts in `offset` what has been written, after an error too.
Result<void> write_all_at(FileHandle file, std::span<const std::byte> bytes, uint64_t& offset,
                          std::string_view action, const std::filesystem::path& path);

Result<uint64_t> file_bytes(FileHandle file, const std::filesystem::path& path);

void close_file(FileHandle file);  // kNoFile is none

}  // namespace penstock
