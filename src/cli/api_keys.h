// The server's API keys as people give them, kept out of sight of others on the machine.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

// Copies of a program's arguments. In the originals, which `ps` shows to every user, each value of
// --api-key is overwritten.
std::vector<std::string> take_arguments(int argc, char** argv);

// A key on each line; empty lines and those that begin with '#' are none. Errors name file and
// line, never a key.
Result<std::vector<std::string>> read_key_file(const std::filesystem::path& path);

// Refuses what cannot come in an HTTP header; `source` says where the keys are from.
Result<void> check_keys(const std::vector<std::string>& keys, std::string_view source);

}  // namespace penstock
