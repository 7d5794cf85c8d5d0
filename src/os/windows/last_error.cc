#include "os/windows/last_error.h"

#include <windows.h>

#include <cerrno>
#include <system_error>

namespace penstock {

std::unexpected<Error> last_error(std::string_view action, const std::filesystem::path& path) {
  return windows_error(::GetLastError(), action, path);
}

std::unexpected<Error> windows_error(uint32_t code, std::string_view action,
                                     const std::filesystem::path& path) {
  const bool missing = code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND;
  std::string why = std::error_code(static_cast<int>(code), std::system_category()).message();
  while (!why.empty() && (why.back() == '\n' || why.back() == '\r' || why.back() == '.')) {
    why.pop_back();
  }
  return std::unexpected(
      Error{missing ? ErrorKind::kNotFound : ErrorKind::kIo,
            fmt::format("cannot {} {}: {} (Windows error {})", action, path.string(), why, code)});
}

int errno_of(uint32_t code) {
  const std::error_condition same =
      std::system_category().default_error_condition(static_cast<int>(code));
  return same.category() == std::generic_category() && same.value() != 0 ? same.value() : EIO;
}

}  // namespace penstock
