// Opens models in the layout of Hugging Face: a folder with config.json and safetensors files.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace penstock {

Result<Checkpoint> open_hf(const std::filesystem::path& folder);

}  // namespace penstock
