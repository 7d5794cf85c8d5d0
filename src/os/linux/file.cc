#include "os/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "os/linux/read_all_at.h"

namespace penstock {
namespace {

// Since Linux 5.2 mincore(2) calls every page resident that it does not want to tell about: of
// files that the caller neither owns nor may write.
bool kernel_tells_cached(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return false;
  return status.st_uid == ::geteuid() || ::faccessat(fd, "", W_OK, AT_EACCESS | AT_EMPTY_PATH) == 0;
}

}  // namespace

Result<File> File::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe returns at once, to be refused below; for regular files it means
  // nothing.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::unexpected(Error::from_errno(errno, "open", path));
  File file(fd, 0, path);
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return std::unexpected(Error::from_errno(errno, "examine", path));
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::kInvalidArgument, "{} is {}, expected a file", path.string(),
                S_ISDIR(status.st_mode) ? "a folder" : "no regular file");
  }
  file.size_ = static_cast<uint64_t>(status.st_size);
  return file;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> File::read_exact(uint64_t offset, std::span<std::byte> out) const {
  return read_all_at(fd_, offset, out, path_);
}

Result<Mapping> Mapping::open(const std::filesystem::path& path) {
  PENSTOCK_ASSIGN(const File file, File::open(path));
  if (file.size() == 0) return Mapping({});  // mmap refuses an empty range
  void* const base = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.fd_, 0);
  if (base == MAP_FAILED) return std::unexpected(Error::from_errno(errno, "map", path));
  return Mapping({static_cast<const std::byte*>(base), file.size()}, kernel_tells_cached(file.fd_));
}

bool Mapping::is_cached(uint64_t offset, size_t n) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;
  const uint64_t end = offset + n;
  if (!tells_cached_ || end > bytes_.size()) return false;
  std::vector<unsigned char> pages((end - begin + page - 1) / page);
  auto* const address = const_cast<std::byte*>(bytes_.data() + begin);
  if (::mincore(address, end - begin, pages.data()) != 0) return false;
  return std::ranges::all_of(pages, [](unsigned char is_there) { return (is_there & 1U) != 0; });
}

void Mapping::expect_random_reads() const {
  if (bytes_.empty()) return;
  ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_RANDOM);
}

void Mapping::begin_to_read(uint64_t offset, size_t n) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;
  const uint64_t end = std::min<uint64_t>(offset + n, bytes_.size());
  if (begin >= end) return;
  ::madvise(const_cast<std::byte*>(bytes_.data() + begin), end - begin, MADV_WILLNEED);
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace penstock
