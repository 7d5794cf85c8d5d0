// A small checkpoint on disk for tests of packs: every tensor its spec needs, in formats a test
// chooses, filled with seeded bytes that decode to ordinary numbers.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "tensor/format.h"

namespace penstock {

// A folder of its own under the test's temporary folder; removed at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Names of everything in it, sorted.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

ModelSpec tiny_dense_spec();  // llama, 2 layers, hidden 64, MLP 192
ModelSpec tiny_moe_spec();    // mixtral, 2 layers, hidden 64, 4 experts of 96

using FormatOf = std::function<Format(std::string_view name)>;

// Writes one file of weights at odd offsets, a tokenizer and config.json into `folder`.
Checkpoint make_checkpoint(const std::filesystem::path& folder, const ModelSpec& spec,
                           const FormatOf& format_of);

std::vector<std::byte> bytes_of(const Checkpoint& checkpoint, const Extent& extent);

// The tensor in float32, row by row.
std::vector<float> values_of(const Checkpoint& checkpoint, std::string_view name);

void write_file(const std::filesystem::path& path, std::string_view content);
std::string read_file(const std::filesystem::path& path);
// Changes one bit.
void damage(const std::filesystem::path& path, uint64_t offset);

}  // namespace penstock
