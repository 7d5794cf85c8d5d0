#include "os/file.h"

#include <system_error>

#include "base/units.h"

namespace penstock {

bool path_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Result<std::string> read_whole_file(const std::filesystem::path& path, uint64_t max_bytes) {
  PENSTOCK_ASSIGN(const File file, File::open(path));
  if (file.size() > max_bytes) {
    return fail(ErrorKind::kInvalidData, "{} has {}, expected at most {}", path.string(),
                format_bytes(file.size()), format_bytes(max_bytes));
  }
  std::string text(file.size(), '\0');
  PENSTOCK_TRY(file.read_exact(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace penstock
