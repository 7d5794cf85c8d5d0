#include "os/linux/read_all_at.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace penstock {

Result<void> read_all_at(int fd, uint64_t offset, std::span<std::byte> out,
                         const std::filesystem::path& path) {
  constexpr size_t kMaxRead = 0x7ffff000;  // that Linux reads in one call
  size_t done = 0;
  while (done < out.size()) {
    const size_t wanted = std::min(out.size() - done, kMaxRead);
    const ssize_t got = ::pread(fd, out.data() + done, wanted, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(Error::from_errno(errno, "read", path));
    if (got == 0) {
      return fail(ErrorKind::kIo, "{} is too short: wanted {} bytes from offset {}, got {}",
                  path.string(), out.size(), offset, done);
    }
    done += static_cast<size_t>(got);
  }
  return {};
}

}  // namespace penstock
