#include "os/file.h"

#include <windows.h>

#include <algorithm>
#include <system_error>

#include "os/windows/file_io.h"
#include "os/windows/last_error.h"

namespace penstock {
namespace {

constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

}  // namespace

Result<File> File::open(const std::filesystem::path& path) {
  // Windows refuses a folder as it refuses one without rights.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail(ErrorKind::kInvalidArgument, "{} is a folder, expected a file", path.string());
  }
  const HANDLE handle = ::CreateFileW(path.c_str(), GENERIC_READ, kShareAll, nullptr, OPEN_EXISTING,
                                      FILE_FLAG_OVERLAPPED, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return last_error("open", path);
  File file(reinterpret_cast<FileHandle>(handle), 0, path);
  if (::GetFileType(handle) != FILE_TYPE_DISK) {
    return fail(ErrorKind::kInvalidArgument, "{} is no regular file, expected a file",
                path.string());
  }
  PENSTOCK_ASSIGN(file.size_, file_bytes(file.fd_, path));
  return file;
}

File::~File() { close_file(fd_); }

Result<void> File::read_exact(uint64_t offset, std::span<std::byte> out) const {
  return read_all_at(fd_, offset, out, path_);
}

Result<Mapping> Mapping::open(const std::filesystem::path& path) {
  PENSTOCK_ASSIGN(const File file, File::open(path));
  if (file.size() == 0) return Mapping({});  // Windows refuses an empty mapping
  const HANDLE section = ::CreateFileMappingW(reinterpret_cast<HANDLE>(file.fd_), nullptr,
                                              PAGE_READONLY, 0, 0, nullptr);
  if (section == nullptr) return last_error("map", path);
  const void* const base = ::MapViewOfFile(section, FILE_MAP_READ, 0, 0, 0);
  const DWORD code = ::GetLastError();
  ::CloseHandle(section);  // the view keeps it
  if (base == nullptr) return windows_error(code, "map", path);
  return Mapping({static_cast<const std::byte*>(base), file.size()});
}

// Windows tells what the process has touched, not what the cache holds.
bool Mapping::is_cached(uint64_t /*offset*/, size_t /*n*/) const { return false; }

// Windows knows this wish for handles, not for mappings, whose faults read little ahead.
void Mapping::expect_random_reads() const {}

void Mapping::begin_to_read(uint64_t offset, size_t n) const {
  const uint64_t end = std::min<uint64_t>(offset + n, bytes_.size());
  if (offset >= end) return;
  WIN32_MEMORY_RANGE_ENTRY range = {
      .VirtualAddress = const_cast<std::byte*>(bytes_.data() + offset),
      .NumberOfBytes = static_cast<size_t>(end - offset)};
  ::PrefetchVirtualMemory(::GetCurrentProcess(), 1, &range, 0);
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::UnmapViewOfFile(bytes_.data());
}

}  // namespace penstock
