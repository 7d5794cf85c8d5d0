// The safetensors files of a Hugging Face folder as one set of tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "os/file.h"

namespace penstock {

struct PlacedTensor {
  uint32_t file = 0;  // index into SafetensorsFolder::files
  SafetensorsTensor tensor = {};
};

struct SafetensorsFolder {
  std::vector<File> files = {};
  std::map<std::string, PlacedTensor, std::less<>> tensors = {};
  std::vector<std::string> notes = {};  // files and tensors that the index does not list

  const PlacedTensor* find(std::string_view name) const;  // nullptr: none
};

// With model.safetensors.index.json, the files and tensors it lists; without, those of
// model.safetensors. The index may name files of the folder only, and each tensor must be in the
// file the index says.
Result<SafetensorsFolder> read_safetensors_folder(const std::filesystem::path& folder);

// Tensor name to file name, checked as far as the text alone goes.
Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text);

}  // namespace penstock
