// tests/golden/gguf/blocks.safetensors for the tests of codecs: raw blocks and what gguf-py and
// torch decode them to (tests/golden/make_gguf.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "tensor/scalar_types.h"

namespace penstock {

struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  std::vector<float> floats() const {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
};

inline std::map<std::string, GoldenTensor> read_golden_blocks() {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/golden/gguf/blocks.safetensors", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  PENSTOCK_CHECK(text.size() > 8, "the golden blocks are missing");
  const auto header_bytes = load_unaligned<uint64_t>(text.data());
  const auto header = parse_json(std::string_view(text).substr(8, header_bytes));
  PENSTOCK_CHECK(header.has_value(), "the golden blocks have no header");
  std::map<std::string, GoldenTensor> tensors;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    const auto range = entry.at("data_offsets").get<std::vector<size_t>>();
    const auto* data = reinterpret_cast<const std::byte*>(text.data()) + 8 + header_bytes;
    tensors[name] = {entry.at("shape").get<std::vector<int64_t>>(),
                     {data + range.at(0), data + range.at(1)}};
  }
  return tensors;
}

}  // namespace penstock
