// What commands read: files and standard input, whole, and the JSON in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace penstock {

Result<std::string> read_file(const std::filesystem::path& path);
std::string read_stdin();

// A list of lists of token ids below 2^31. `source` is named in errors: "ids.json: list 2, ...".
Result<std::vector<std::vector<int32_t>>> parse_id_lists(std::string_view text,
                                                         std::string_view source);
Result<std::vector<std::string>> parse_strings(std::string_view text, std::string_view source);

}  // namespace penstock
