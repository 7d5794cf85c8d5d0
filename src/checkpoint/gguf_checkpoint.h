// Opens GGUF models.
#pragma once

#include <filesystem>
#include <span>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_files.h"

namespace penstock {

// `path` may be any file of a split model.
Result<Checkpoint> open_gguf(const std::filesystem::path& path);

// The same of files already mapped; they need not exist by their names.
Result<Checkpoint> gguf_checkpoint(std::span<const GgufFile> files);

}  // namespace penstock
