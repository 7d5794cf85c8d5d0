// The tokenizer and the chat template of what a command line names.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "text/tokenizer.h"

namespace penstock {

// Of a model, or a tokenizer.json by itself.
Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::filesystem::path& path);

}  // namespace penstock
