// What the tests and benchmarks of the tokenizer read from tests/golden/tokenizers.
#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace penstock {

inline const std::string kGoldenTokenizers = PENSTOCK_SOURCE_DIR "/tests/golden/tokenizers/";

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Json read_json(const std::string& path) {
  auto json = parse_json(read_file(path));
  if (!json) throw std::runtime_error(path + ": " + json.error().text());
  return *std::move(json);
}

template <class T>
T expect_value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return *std::move(result);
}

// The tokenizer in SmolLM2's GGUF; make_smollm2_vocabulary.py says how the file was made.
inline GgufVocabulary smollm2_vocabulary() {
  const Json file = read_json(kGoldenTokenizers + "smollm2_vocabulary.json");
  GgufVocabulary vocabulary;
  vocabulary.model = file["model"];
  vocabulary.pre = file["pre"];
  vocabulary.tokens = file["tokens"];
  vocabulary.merges = file["merges"];
  vocabulary.token_types.assign(vocabulary.tokens.size(),
                                static_cast<int32_t>(GgufTokenType::kNormal));
  for (const auto& [type, ids] : file["token_types_but_normal"].items()) {
    for (const size_t id : ids.get<std::vector<size_t>>())
      vocabulary.token_types.at(id) = std::stoi(type);
  }
  vocabulary.bos_id = file["bos_token_id"];
  vocabulary.eos_id = file["eos_token_id"];
  vocabulary.unk_id = file["unknown_token_id"];
  vocabulary.pad_id = file["padding_token_id"];
  vocabulary.add_bos = file["add_bos_token"];
  vocabulary.add_space_prefix = file["add_space_prefix"];
  return vocabulary;
}

}  // namespace penstock
