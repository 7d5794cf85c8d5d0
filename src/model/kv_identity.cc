#include "model/kv_identity.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/version.h"

namespace penstock {
namespace {

Result<std::string> file_identity(const std::filesystem::path& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return std::unexpected(Error::from_errno(error.value(), "examine", path));
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return std::unexpected(Error::from_errno(error.value(), "examine", path));
  const auto nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return fmt::format("file {} {} {}\n", path.filename().string(), bytes, nanoseconds);
}

}  // namespace

Result<std::string> kv_identity(const Checkpoint& checkpoint, const LoadReport& report) {
  std::string text = fmt::format("penstock {} {}\n{} on {}\n{}\n", version(), commit(),
                                 penstock::to_string(report.precision),
                                 penstock::to_string(report.isa), to_json(checkpoint.spec).dump());
  for (const Region& region : checkpoint.regions) {
    fmt::format_to(std::back_inserter(text), "{} {:016x}\n", region.name, region.xxh3);
  }
  if (checkpoint.kind == SourceKind::kPack) return text;
  for (const auto& file : checkpoint.files) {
    PENSTOCK_ASSIGN(const std::string identity, file_identity(file));
    text += identity;
  }
  return text;
}

}  // namespace penstock
