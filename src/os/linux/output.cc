#include "os/output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/check.h"
#include "os/linux/write_all.h"

namespace penstock {
namespace {

std::unexpected<Error> failed(std::string_view action, const std::filesystem::path& path) {
  return std::unexpected(Error::from_errno(errno, action, path));
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return failed("create", path);
  return OutputFile(fd, path);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> OutputFile::append(std::span<const std::byte> bytes) {
  return write_all(fd_, bytes, bytes_, "write", path_);
}

Result<void> OutputFile::sync() {
  if (::fsync(fd_) != 0) return failed("sync", path_);
  return {};
}

Result<std::optional<FileLock>> FileLock::try_acquire(const std::filesystem::path& path,
                                                      Mode mode) {
  const int create = mode == Mode::kCreate ? O_CREAT : 0;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | create, 0666);
  if (fd < 0) return failed("open", path);
  FileLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return std::nullopt;
  return failed("lock", path);
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool FileLock::is_at(const std::filesystem::path& path) const {
  struct stat held = {};
  struct stat named = {};
  PENSTOCK_CHECK(::fstat(fd_, &held) == 0, "fstat of an open file");
  return ::stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

Result<void> write_whole_file(const std::filesystem::path& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return failed("write", path);
  uint64_t n_written = 0;
  auto written = write_all(fd, std::as_bytes(std::span(text)), n_written, "write", path);
  // Some file systems tell only now that the disk is full.
  if (::close(fd) != 0 && written) return failed("write", path);
  return written;
}

Result<void> sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed("open", folder);
  const int rc = ::fsync(fd);
  const int code = errno;
  ::close(fd);
  if (rc != 0) return std::unexpected(Error::from_errno(code, "sync", folder));
  return {};
}

Result<uint64_t> free_disk_bytes(const std::filesystem::path& folder) {
  struct statvfs disk = {};
  if (::statvfs(folder.c_str(), &disk) != 0) return failed("measure the disk of", folder);
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

Result<void> swap_names(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return {};
  if (errno == EINVAL || errno == ENOSYS) {
    return fail(ErrorKind::kUnsupported,
                "cannot put {} in the place of {} at once: this file system cannot exchange names",
                a.string(), b.string());
  }
  return failed("replace", b);
}

}  // namespace penstock
