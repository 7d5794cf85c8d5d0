// The header of one safetensors file: where each tensor's bytes are. Layout and rules:
// docs/checkpoints.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/file.h"

namespace penstock {

struct SafetensorsTensor {
  std::string dtype = {};  // as the file says, perhaps one that nobody knows
  std::vector<uint64_t> shape = {};
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;
};

using SafetensorsHeader = std::map<std::string, SafetensorsTensor, std::less<>>;

// Bits of one element of a safetensors dtype; nullopt for a name the format does not have.
std::optional<uint32_t> safetensors_dtype_bits(std::string_view dtype);

// `head` is the file's beginning: its first 8 bytes at least, and 8 + N where those say N. The
// tensors follow each other without holes up to the end of the file of `file_size` bytes. Errors
// name the tensor, what was found and what was expected.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> head,
                                                   uint64_t file_size);

// Reads as much of the file as its header takes. Errors name the file.
Result<SafetensorsHeader> read_safetensors_header(const File& file);

}  // namespace penstock
