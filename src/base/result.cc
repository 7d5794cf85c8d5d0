#include "base/result.h"

#include <cstring>
#include <system_error>

namespace penstock {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument: return "invalid argument";
    case ErrorKind::kInvalidData: return "invalid data";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kNotFound: return "not found";
    case ErrorKind::kIo: return "i/o";
    case ErrorKind::kExhausted: return "exhausted";
    case ErrorKind::kUnavailable: return "unavailable";
    case ErrorKind::kCancelled: return "cancelled";
    case ErrorKind::kInternal: return "internal";
  }
  return "unknown";
}

Error Error::from_errno(int code, std::string_view action, const std::filesystem::path& path) {
  const bool missing = code == ENOENT || code == ENOTDIR;
  return Error{missing ? ErrorKind::kNotFound : ErrorKind::kIo,
               fmt::format("cannot {} {}: {}", action, path.string(),
                           std::error_code(code, std::generic_category()).message())};
}

Error Error::in(std::string_view prefix) const {
  Error copy = *this;
  copy.message = fmt::format("{}: {}", prefix, message);
  return copy;
}

std::string Error::text() const {
  return hint.empty() ? message : fmt::format("{} ({})", message, hint);
}

}  // namespace penstock
