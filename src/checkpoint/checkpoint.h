// Opens a model (Hugging Face folder, GGUF file or pack) as one ModelSpec and a table of where each
// tensor's bytes are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "checkpoint/model_spec.h"
#include "tensor/format.h"

namespace penstock {

// A run of bytes of one of the checkpoint's files. Checked against the file's size when the
// checkpoint was opened.
struct Extent {
  uint32_t file = 0;  // index into Checkpoint::files
  uint64_t offset = 0;
  uint64_t bytes = 0;

  bool operator==(const Extent&) const = default;
};

// One matrix or vector as stored: MatrixView with extents in place of memory. A vector has rows
// = 1.
struct StoredTensor {
  std::string source_name = {};  // as the file calls it, for messages
  Format format = Format::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  Extent data = {};
  Extent scales = {};
  Extent zeros = {};
  Extent groups = {};
  ScaleFormat scale_format = ScaleFormat::kF32;
  uint32_t group_cols = 0;
  uint32_t block_rows = 0;
  bool zeros_minus_one = false;
  float scale = 1.0F;

  bool operator==(const StoredTensor&) const = default;
};

// The tensors of every family under one set of names (docs/models.md):
//   embed  final_norm  head (absent when tied)
//   layers.N. attn_norm  q k v o  q_bias k_bias v_bias o_bias  q_norm k_norm  ffn_norm
//             gate up down  gate_bias up_bias down_bias             dense feed-forward
//             router  router_bias  shared.gate shared.up shared.down
//             experts.E.gate experts.E.up experts.E.down             one entry for each expert
using TensorTable = std::map<std::string, StoredTensor, std::less<>>;

// The tokenizer as the checkpoint has it; the text room makes sense of it.
struct StoredTokenizer {
  std::string json = {};  // tokenizer.json, whole; empty when the model came as GGUF
  // From a GGUF: tokenizer.ggml.* with the prefix removed ("model", "pre", "tokens", "merges",
  // "bos_token_id", ...); null when there is none.
  Json ggml = nullptr;
  std::string chat_template = {};  // empty: none
  std::string bos_token =
      {};  // as templates see them; from tokenizer_config.json or the GGUF's ids
  std::string eos_token = {};
};

// What generation_config.json asks for.
struct GenerationDefaults {
  std::vector<int32_t> eos_ids = {};  // the union of generation_config, config and GGUF eos/eot ids
  std::optional<int32_t> bos_id = {};

  bool operator==(const GenerationDefaults&) const = default;
};

// What a pack reads and moves at once, with the checksum of its bytes.
struct Region {
  std::string name = {};  // "embed", "layers.0.experts.3"
  Extent extent = {};
  uint64_t xxh3 = 0;

  bool operator==(const Region&) const = default;
};

enum class SourceKind : uint8_t { kHuggingFace, kGguf, kPack };

struct Checkpoint {
  SourceKind kind = SourceKind::kHuggingFace;
  std::filesystem::path path = {};
  std::string name = {};  // for /v1/models: the folder's or file's name
  ModelSpec spec = {};
  std::vector<std::filesystem::path> files = {};
  TensorTable tensors = {};
  std::vector<Region> regions = {};  // of a pack: they tile its files, in order; else none
  StoredTokenizer tokenizer = {};
  GenerationDefaults generation = {};
  std::vector<std::string> notes = {};  // what was ignored, and why: for one log line each
};

// Reads headers only. Every tensor the spec needs is there with the right shape, or this is an
// error that names it.
Result<Checkpoint> open_checkpoint(const std::filesystem::path& path);

}  // namespace penstock
