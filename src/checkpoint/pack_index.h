// penstock.json: what a pack holds and where, with a checksum of everything. docs/pack.md has the
// layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace penstock {

inline constexpr std::string_view kPackIndexName = "penstock.json";
inline constexpr int kPackVersion = 1;
// Regions begin and end on multiples of this: what direct reads and DMA want.
inline constexpr uint64_t kPackAlignment = 4096;
// Runs of bytes inside a region begin on multiples of this: a cache line, the widest vector.
inline constexpr uint64_t kPackRunAlignment = 64;

// A small file read whole: tokenizer, template, config.
struct PackText {
  std::string name = {};
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;

  bool operator==(const PackText&) const = default;
};

// A file of regions, end to end.
struct PackFile {
  std::string name = {};
  uint64_t bytes = 0;

  bool operator==(const PackFile&) const = default;
};

struct PackTensor {
  std::string name = {};     // as in TensorTable
  StoredTensor stored = {};  // its extents lie inside the region

  bool operator==(const PackTensor&) const = default;
};

// A tensor, or the gate, up and down of one expert. Its checksum is of the whole extent, padding
// included.
struct PackRegion : Region {
  std::vector<PackTensor> tensors = {};

  bool operator==(const PackRegion&) const = default;
};

struct PackIndex {
  std::string source = {};  // what was packed and how, for people
  ModelSpec spec = {};
  GenerationDefaults generation = {};
  std::string bos_token = {};
  std::string eos_token = {};
  std::vector<PackText> texts = {};
  std::vector<PackFile> files = {};
  std::vector<PackRegion> regions = {};  // in file order; they tile the files

  bool operator==(const PackIndex&) const = default;
};

// Whether `folder` is a pack, or claims to be one.
bool is_pack(const std::filesystem::path& folder);

// The text of penstock.json, its own checksum included.
std::string to_text(const PackIndex& index);

// Any text gives an index whose regions tile its files and whose tensors have the bytes that their
// shapes and formats need, or an error that names the field. Does not look at the checksum.
Result<PackIndex> parse_pack_index(std::string_view text);

// Reads, checks against its checksum and parses penstock.json. Errors begin with its path.
Result<PackIndex> read_pack_index(const std::filesystem::path& folder);

}  // namespace penstock
