#include "os/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "os/linux/read_all_at.h"

namespace penstock {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;

class LinuxPrivateFile final : public PrivateFile {
 public:
  LinuxPrivateFile(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}
  LinuxPrivateFile(const LinuxPrivateFile&) = delete;
  LinuxPrivateFile& operator=(const LinuxPrivateFile&) = delete;
  ~LinuxPrivateFile() override { ::close(fd_); }

  // What open() left to do: who may read it, and how it is written.
  Result<void> set_up(WriteThrough through) const {
    struct stat status = {};
    if (::fstat(fd_, &status) != 0) return failed("examine");
    if (!S_ISREG(status.st_mode)) {
      return fail(ErrorKind::kInvalidData, "{} is no regular file", path_.string());
    }
    if (::fchmod(fd_, kFileMode) != 0) return failed("set the rights of");
    // A file system that refuses direct writes, a tmpfs for example, gets them the other way.
    if (through == WriteThrough::kDirect) ::fcntl(fd_, F_SETFL, O_DIRECT);
    return {};
  }

  Result<uint64_t> size() const override {
    struct stat status = {};
    if (::fstat(fd_, &status) != 0) return failed("examine");
    return static_cast<uint64_t>(status.st_size);
  }

  Result<void> resize(uint64_t bytes) override {
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return failed("resize");
    return {};
  }

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::pwrite(fd_, bytes.data() + done, bytes.size() - done,
                                 static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("write");
      done += static_cast<size_t>(n);
    }
    return {};
  }

  Result<void> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_all_at(fd_, offset, out, path_);
  }

 private:
  std::unexpected<Error> failed(std::string_view action) const {
    return std::unexpected(Error::from_errno(errno, action, path_));
  }

  int fd_;
  std::filesystem::path path_;
};

}  // namespace

Result<void> make_private_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (const auto above = folder.parent_path(); !above.empty()) {
    std::filesystem::create_directories(above, error);
    if (error) return std::unexpected(Error::from_errno(error.value(), "create", above));
  }
  if (::mkdir(folder.c_str(), kFolderMode) == 0) return {};
  const int code = errno;
  if (code == EEXIST && std::filesystem::is_directory(folder, error)) return {};
  return std::unexpected(Error::from_errno(code, "create", folder));
}

Result<std::unique_ptr<PrivateFile>> open_private_file(const std::filesystem::path& path,
                                                       WriteThrough through) {
  // O_NONBLOCK: a pipe of that name is refused at once, not waited for.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, kFileMode);
  if (fd < 0) return std::unexpected(Error::from_errno(errno, "open", path));
  auto file = std::make_unique<LinuxPrivateFile>(fd, path);
  PENSTOCK_TRY(file->set_up(through));
  return file;
}

}  // namespace penstock
