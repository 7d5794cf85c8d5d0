#include "os/scratch_file.h"

#include <windows.h>

#include <atomic>
#include <string>

#include "os/windows/file_io.h"
#include "os/windows/last_error.h"

namespace penstock {

// It has a name, under which it can be opened once more; Windows removes it with the last handle.
Result<ScratchFile> ScratchFile::create(const std::filesystem::path& folder) {
  static std::atomic<unsigned> n_created = 0;  // only tells names apart
  for (;;) {
    const auto path = folder / fmt::format(".penstock-scratch-{}-{}", ::GetCurrentProcessId(),
                                           n_created.fetch_add(1, std::memory_order_relaxed));
    const HANDLE handle = ::CreateFileW(
        path.c_str(), GENERIC_READ | GENERIC_WRITE | DELETE,
        FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, CREATE_NEW,
        FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE | FILE_FLAG_OVERLAPPED, nullptr);
    if (handle != INVALID_HANDLE_VALUE) {
      return ScratchFile(reinterpret_cast<FileHandle>(handle), folder, path);
    }
    if (::GetLastError() != ERROR_FILE_EXISTS) return last_error("create a file in", folder);
  }
}

ScratchFile::~ScratchFile() { close_file(fd_); }

Result<void> ScratchFile::append(std::span<const std::byte> bytes) {
  return write_all_at(fd_, bytes, bytes_, "write a file in", folder_);
}

Result<void> ScratchFile::settle() {
  if (::FlushFileBuffers(reinterpret_cast<HANDLE>(fd_)) == FALSE) {
    return last_error("sync a file in", folder_);
  }
  return {};  // Windows has no way to ask the cache to forget a file; direct reads pass it by
}

}  // namespace penstock
