#include <windows.h>

#include "os/direct_io.h"
#include "os/windows/file_io.h"
#include "os/windows/last_error.h"

namespace penstock {

Result<DirectFile> DirectFile::open(const std::filesystem::path& path) {
  PENSTOCK_ASSIGN(File file, File::open(path));
  const HANDLE direct = ::CreateFileW(
      path.c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
      OPEN_EXISTING, FILE_FLAG_OVERLAPPED | FILE_FLAG_NO_BUFFERING, nullptr);
  if (direct == INVALID_HANDLE_VALUE) return DirectFile(std::move(file), /*is_direct=*/false);
  File direct_file(reinterpret_cast<FileHandle>(direct), 0, path);
  PENSTOCK_ASSIGN(direct_file.size_, file_bytes(direct_file.fd_, path));
  return DirectFile(std::move(direct_file), /*is_direct=*/true);
}

std::string DirectFile::note() const {
  if (is_direct_) return {};
  return fmt::format("{} is read through the file cache: its file system refuses direct reads",
                     path().string());
}

intptr_t DirectFile::handle() const { return file_.fd_; }

}  // namespace penstock
