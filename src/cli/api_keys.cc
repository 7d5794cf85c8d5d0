#include "cli/api_keys.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace penstock {
namespace {

constexpr std::string_view kFlag = "--api-key";

void overwrite(char* text) { std::memset(text, 'x', std::strlen(text)); }

bool is_key(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7F; });
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = std::min(line.find_first_not_of(kSpace), line.size());
  line.remove_prefix(begin);
  return line.substr(0, line.find_last_not_of(kSpace) + 1);
}

}  // namespace

std::vector<std::string> take_arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = arguments[static_cast<size_t>(i)];
    if (argument == kFlag && i + 1 < argc) overwrite(argv[++i]);
    if (argument.starts_with(kFlag) && argument.substr(kFlag.size()).starts_with('=')) {
      overwrite(argv[i] + kFlag.size() + 1);
    }
  }
  return arguments;
}

Result<std::vector<std::string>> read_key_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::unexpected(Error::from_errno(errno, "open", path));
  std::vector<std::string> keys;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string_view key = trimmed(line);
    if (key.empty() || key.starts_with('#')) continue;
    if (!is_key(key)) {
      return fail(ErrorKind::kInvalidData,
                  "{} line {}: a key has printable ASCII characters only, and no spaces",
                  path.string(), number);
    }
    keys.emplace_back(key);
  }
  if (keys.empty()) return fail(ErrorKind::kInvalidData, "{} has no keys", path.string());
  return keys;
}

Result<void> check_keys(const std::vector<std::string>& keys, std::string_view source) {
  if (std::ranges::all_of(keys, is_key)) return {};
  return fail(ErrorKind::kInvalidArgument,
              "{}: a key has printable ASCII characters only, at least one, and no spaces", source);
}

}  // namespace penstock
