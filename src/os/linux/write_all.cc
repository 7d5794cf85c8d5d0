#include "os/linux/write_all.h"

#include <unistd.h>

#include <cerrno>

namespace penstock {

Result<void> write_all(int fd, std::span<const std::byte> bytes, uint64_t& n_written,
                       std::string_view action, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::unexpected(Error::from_errno(errno, action, path));
    bytes = bytes.subspan(static_cast<size_t>(n));
    n_written += static_cast<uint64_t>(n);
  }
  return {};
}

}  // namespace penstock
