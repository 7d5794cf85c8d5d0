#include "cli/input.h"

#include <cerrno>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <system_error>

namespace penstock {
namespace {

Result<Json> parse_list(std::string_view text, std::string_view source, std::string_view of_what) {
  Result<Json> json = parse_json(text);
  if (!json) return std::unexpected(json.error().in(source));
  if (!json->is_array()) {
    return fail(ErrorKind::kInvalidData, "{}: found {}, expected a list of {}", source,
                json->type_name(), of_what);
  }
  return json;
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return std::unexpected(Error::from_errno(EISDIR, "read", path));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    return std::unexpected(Error::from_errno(errno != 0 ? errno : EIO, "read", path));
  }
  return text;
}

std::string read_stdin() { return {std::istreambuf_iterator<char>(std::cin), {}}; }

Result<std::vector<std::vector<int32_t>>> parse_id_lists(std::string_view text,
                                                         std::string_view source) {
  PENSTOCK_ASSIGN(const Json json, parse_list(text, source, "lists of token ids"));
  std::vector<std::vector<int32_t>> lists;
  for (const Json& list : json) {
    if (!list.is_array()) {
      return fail(ErrorKind::kInvalidData, "{}: list {} is {}, expected a list of token ids",
                  source, lists.size(), list.type_name());
    }
    std::vector<int32_t> ids;
    for (const Json& id : list) {
      if (!id.is_number_unsigned() ||
          id.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
        return fail(ErrorKind::kInvalidData, "{}: list {}, place {}: found {}, expected a token id",
                    source, lists.size(), ids.size(), id.dump().substr(0, 40));
      }
      ids.push_back(id.get<int32_t>());
    }
    lists.push_back(std::move(ids));
  }
  return lists;
}

Result<std::vector<std::string>> parse_strings(std::string_view text, std::string_view source) {
  PENSTOCK_ASSIGN(const Json json, parse_list(text, source, "strings"));
  std::vector<std::string> strings;
  for (const Json& item : json) {
    if (!item.is_string()) {
      return fail(ErrorKind::kInvalidData, "{}: place {} is {}, expected a string", source,
                  strings.size(), item.type_name());
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

}  // namespace penstock
