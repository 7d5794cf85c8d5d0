#include "cli/logits_file.h"

#include <bit>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/json.h"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

// https://huggingface.co/docs/safetensors, "Format": a u64 length, then that much JSON, padded with
// spaces to 8 bytes so that the numbers behind it are aligned.
std::string header(std::span<const int64_t> rows, int64_t cols) {
  OrderedJson json = OrderedJson::object();
  uint64_t offset = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t end = offset + static_cast<uint64_t>(rows[i] * cols) * sizeof(float);
    json["p" + std::to_string(i)] = {
        {"dtype", "F32"}, {"shape", {rows[i], cols}}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  std::filesystem::path name = path;
  name += ".partial";
  return name;
}

std::unexpected<Error> write_error(const std::filesystem::path& path) {
  return std::unexpected(Error::from_errno(errno != 0 ? errno : EIO, "write", path));
}

}  // namespace

Result<LogitsFile> LogitsFile::create(const std::filesystem::path& path,
                                      std::span<const int64_t> rows, int64_t cols) {
  errno = 0;
  std::ofstream file(temporary_name(path), std::ios::binary | std::ios::trunc);
  const std::string head = header(rows, cols);
  if (!file.write(head.data(), static_cast<std::streamsize>(head.size()))) return write_error(path);
  uint64_t n_values = 0;
  for (const int64_t n : rows) n_values += static_cast<uint64_t>(n * cols);
  return LogitsFile(path, std::move(file), n_values);
}

LogitsFile::~LogitsFile() {
  if (!file_.is_open()) return;  // closed, or moved from
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(temporary_name(path_), ignored);
}

Result<void> LogitsFile::write(std::span<const float> values) {
  PENSTOCK_CHECK(values.size() <= values_left_, "more logits than were announced");
  errno = 0;
  const auto bytes = static_cast<std::streamsize>(values.size_bytes());
  if (!file_.write(reinterpret_cast<const char*>(values.data()), bytes)) return write_error(path_);
  values_left_ -= values.size();
  return {};
}

Result<void> LogitsFile::close() {
  PENSTOCK_CHECK(values_left_ == 0, "fewer logits than were announced");
  errno = 0;
  if (!file_.flush()) return write_error(path_);
  file_.close();
  std::error_code failed;
  std::filesystem::rename(temporary_name(path_), path_, failed);
  if (failed) return std::unexpected(Error::from_errno(failed.value(), "write", path_));
  return {};
}

}  // namespace penstock
