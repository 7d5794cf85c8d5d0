#include "os/output.h"

#include <windows.h>

#include "base/check.h"
#include "os/windows/file_io.h"
#include "os/windows/last_error.h"

namespace penstock {
namespace {

constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

HANDLE handle_of(FileHandle file) { return reinterpret_cast<HANDLE>(file); }

}  // namespace

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
  const HANDLE handle = ::CreateFileW(path.c_str(), GENERIC_WRITE, kShareAll, nullptr, CREATE_NEW,
                                      FILE_FLAG_OVERLAPPED, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return last_error("create", path);
  return OutputFile(reinterpret_cast<FileHandle>(handle), path);
}

OutputFile::~OutputFile() { close_file(fd_); }

Result<void> OutputFile::append(std::span<const std::byte> bytes) {
  return write_all_at(fd_, bytes, bytes_, "write", path_);
}

Result<void> OutputFile::sync() {
  if (::FlushFileBuffers(handle_of(fd_)) == FALSE) return last_error("sync", path_);
  return {};
}

Result<std::optional<FileLock>> FileLock::try_acquire(const std::filesystem::path& path,
                                                      Mode mode) {
  const DWORD how = mode == Mode::kCreate ? OPEN_ALWAYS : OPEN_EXISTING;
  const HANDLE handle = ::CreateFileW(path.c_str(), GENERIC_READ | GENERIC_WRITE, kShareAll,
                                      nullptr, how, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return last_error("open", path);
  FileLock lock(reinterpret_cast<FileHandle>(handle));
  // Locks on Windows keep others from the bytes: this one lies behind all that a file has.
  OVERLAPPED at = {};
  at.OffsetHigh = 0x7fff'ffff;
  if (::LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at) !=
      FALSE) {
    return lock;
  }
  const DWORD code = ::GetLastError();
  if (code == ERROR_LOCK_VIOLATION || code == ERROR_IO_PENDING) return std::nullopt;
  return windows_error(code, "lock", path);
}

FileLock::~FileLock() { close_file(fd_); }

bool FileLock::is_at(const std::filesystem::path& path) const {
  BY_HANDLE_FILE_INFORMATION held = {};
  PENSTOCK_CHECK(::GetFileInformationByHandle(handle_of(fd_), &held) != FALSE,
                 "an open file can be examined");
  const HANDLE named = ::CreateFileW(path.c_str(), 0, kShareAll, nullptr, OPEN_EXISTING,
                                     FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (named == INVALID_HANDLE_VALUE) return false;
  BY_HANDLE_FILE_INFORMATION there = {};
  const BOOL is_known = ::GetFileInformationByHandle(named, &there);
  ::CloseHandle(named);
  return is_known != FALSE && held.dwVolumeSerialNumber == there.dwVolumeSerialNumber &&
         held.nFileIndexHigh == there.nFileIndexHigh && held.nFileIndexLow == there.nFileIndexLow;
}

Result<void> write_whole_file(const std::filesystem::path& path, std::string_view text) {
  const HANDLE handle = ::CreateFileW(path.c_str(), GENERIC_WRITE, kShareAll, nullptr,
                                      CREATE_ALWAYS, FILE_FLAG_OVERLAPPED, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return last_error("write", path);
  uint64_t n_written = 0;
  auto written = write_all_at(reinterpret_cast<FileHandle>(handle), std::as_bytes(std::span(text)),
                              n_written, "write", path);
  if (::CloseHandle(handle) == FALSE && written) return last_error("write", path);
  return written;
}

// NTFS writes the names of its folders to a journal, and lets only administrators flush a volume.
Result<void> sync_folder(const std::filesystem::path& folder) {
  const DWORD attributes = ::GetFileAttributesW(folder.c_str());
  if (attributes == INVALID_FILE_ATTRIBUTES) return last_error("open", folder);
  if ((attributes & FILE_ATTRIBUTE_DIRECTORY) == 0) {
    return windows_error(ERROR_DIRECTORY, "open", folder);
  }
  return {};
}

Result<uint64_t> free_disk_bytes(const std::filesystem::path& folder) {
  ULARGE_INTEGER bytes = {};
  if (::GetDiskFreeSpaceExW(folder.c_str(), &bytes, nullptr, nullptr) == FALSE) {
    return last_error("measure the disk of", folder);
  }
  return bytes.QuadPart;
}

Result<void> swap_names(const std::filesystem::path& a, const std::filesystem::path& b) {
  for (const auto& path : {a, b}) {
    if (::GetFileAttributesW(path.c_str()) == INVALID_FILE_ATTRIBUTES) {
      return last_error("replace", path);
    }
  }
  return fail(ErrorKind::kUnsupported,
              "cannot put {} in the place of {} at once: Windows cannot exchange names", a.string(),
              b.string());
}

}  // namespace penstock
