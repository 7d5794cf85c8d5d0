// The header of one GGUF file: metadata, and where each tensor's bytes are. Layout and rules:
// docs/checkpoints.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tensor/format.h"

namespace penstock {

// A tensor type of ggml. Types that no kernel here reads have no format, but a known size, so that
// files that hold one beside the weights can be opened.
struct GgmlType {
  uint32_t id = 0;
  std::string_view name;
  uint32_t block = 1;  // elements
  uint32_t bytes = 0;  // of one block
  std::optional<Format> format = {};
};

// nullptr for an unknown or retired id.
const GgmlType* find_ggml_type(uint32_t id);

struct GgufTensor {
  std::string name = {};
  const GgmlType* type = nullptr;
  std::vector<uint64_t> dims = {};  // 1 to 4, the contiguous one first
  uint64_t offset = 0;              // from the start of the file
  uint64_t bytes = 0;
};

struct GgufHeader {
  Json metadata = Json::object();        // every key with its value
  std::vector<GgufTensor> tensors = {};  // in the file's order
};

// `file` is the whole file, of which only the header is touched. Every tensor's bytes lie within it
// and apart from the others'. Errors say which field, what was found and what was expected.
Result<GgufHeader> parse_gguf(std::span<const std::byte> file);

}  // namespace penstock
