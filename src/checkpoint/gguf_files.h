// The one to many files of a GGUF model as one set of metadata and tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/gguf.h"

namespace penstock {

struct GgufFile {
  std::filesystem::path path = {};
  std::span<const std::byte> bytes = {};  // the whole file, mapped by the caller
};

struct GgufPlacedTensor {
  uint32_t file = 0;
  GgufTensor tensor = {};
};

struct GgufModel {
  Json metadata = {};  // the first file's
  std::map<std::string, GgufPlacedTensor, std::less<>> tensors = {};

  const GgufPlacedTensor* find(std::string_view name) const;  // nullptr: none
};

// All files of the model that `path` belongs to: itself, or for a name like
// "x-00002-of-00003.gguf" the three of them, in order. A missing one is an error that names it.
Result<std::vector<std::filesystem::path>> gguf_split_paths(const std::filesystem::path& path);

// Parses each header and checks that the files belong together: numbered in order, the counts
// agree, no tensor in two of them.
Result<GgufModel> join_gguf(std::span<const GgufFile> files);

// The numbers of an f32 tensor.
Result<std::vector<float>> read_gguf_floats(std::span<const GgufFile> files,
                                            const GgufPlacedTensor& placed);

}  // namespace penstock
