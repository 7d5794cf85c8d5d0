// The tokenizer inside a GGUF file, as plain data: the values of its tokenizer.ggml.* keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

struct GgufVocabulary {
  std::string model;                 // "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;                   // gpt2: how text is split before merging; empty is "default"
  std::vector<std::string> tokens;   // [n]
  std::vector<float> scores;         // [n]; needed by "llama", unused by "gpt2"
  std::vector<int32_t> token_types;  // [n] or empty (all normal); GgufTokenType
  std::vector<std::string> merges;   // "left right", best first; needed by "gpt2"
  std::optional<int32_t> bos_id, eos_id, eot_id, unk_id, pad_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// tokenizer.ggml.token_type, from the GGUF specification.
enum class GgufTokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

}  // namespace penstock
