#include <fcntl.h>

#include <cerrno>

#include "os/direct_io.h"

namespace penstock {

Result<DirectFile> DirectFile::open(const std::filesystem::path& path) {
  PENSTOCK_ASSIGN(File file, File::open(path));
  // This also clears O_NONBLOCK, with which io_uring would give back EAGAIN instead of waiting.
  const bool is_direct = ::fcntl(file.fd_, F_SETFL, O_DIRECT) == 0;
  if (!is_direct && ::fcntl(file.fd_, F_SETFL, 0) != 0) {
    return std::unexpected(Error::from_errno(errno, "set up reads of", path));
  }
  return DirectFile(std::move(file), is_direct);
}

std::string DirectFile::note() const {
  if (is_direct_) return {};
  return fmt::format("{} is read through the page cache: its file system refuses direct reads",
                     path().string());
}

intptr_t DirectFile::handle() const { return file_.fd_; }

}  // namespace penstock
