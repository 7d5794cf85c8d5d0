// What a Hugging Face folder says of text: tokenizer, chat template, special tokens, when to stop.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"

namespace penstock {

struct HfText {
  StoredTokenizer tokenizer = {};
  GenerationDefaults generation = {};
  std::vector<std::string> notes = {};
};

// All of the files are optional; one that is there must be right. Ids outside the vocabulary are
// left out, with a note. Errors name the file.
Result<HfText> read_hf_text(const std::filesystem::path& folder, const HfConfig& config);

}  // namespace penstock
