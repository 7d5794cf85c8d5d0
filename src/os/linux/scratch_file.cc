#include "os/scratch_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "os/linux/write_all.h"

namespace penstock {

// Not O_TMPFILE, which not every file system has.
Result<ScratchFile> ScratchFile::create(const std::filesystem::path& folder) {
  std::string name = (folder / ".penstock-scratch-XXXXXX").string();
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return std::unexpected(Error::from_errno(errno, "create a file in", folder));
  ScratchFile file(fd, folder, "/proc/self/fd/" + std::to_string(fd));
  if (::unlink(name.c_str()) != 0) {
    return std::unexpected(Error::from_errno(errno, "remove", name));
  }
  return file;
}

ScratchFile::~ScratchFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> ScratchFile::append(std::span<const std::byte> bytes) {
  return write_all(fd_, bytes, bytes_, "write a file in", folder_);
}

Result<void> ScratchFile::settle() {
  if (::fsync(fd_) != 0)
    return std::unexpected(Error::from_errno(errno, "sync a file in", folder_));
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);  // a wish: direct reads pass it by anyway
  return {};
}

}  // namespace penstock
