// For tests of models: the golden checkpoints and what they must say, sequences that run through a
// model, and prompts that cross it a layer a step.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "model/language_model.h"
#include "os/environment.h"

namespace penstock {

// $PENSTOCK_GOLDEN is where they are on a machine that only got the test programs.
inline std::filesystem::path golden_folder() {
  const std::string elsewhere(environment_variable("PENSTOCK_GOLDEN"));
  return elsewhere.empty() ? std::filesystem::path(PENSTOCK_SOURCE_DIR "/tests/golden")
                           : std::filesystem::path(elsewhere);
}
inline const std::filesystem::path kGolden = golden_folder();

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The F32 tensors of a safetensors file, read plainly: these files are ours.
inline std::map<std::string, std::vector<float>> read_tensors(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  std::map<std::string, std::vector<float>> tensors;
  const Json header = Json::parse(bytes.substr(8, header_bytes));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || entry["dtype"] != "F32") continue;
    const size_t begin = entry["data_offsets"][0];
    const size_t end = entry["data_offsets"][1];
    std::vector<float>& values = tensors[name];
    values.resize((end - begin) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + 8 + header_bytes + begin, end - begin);
  }
  return tensors;
}

struct Golden {
  std::filesystem::path model;
  std::filesystem::path expected;  // without its extension
};

inline std::vector<Golden> goldens() {
  std::vector<Golden> all;
  for (const char* name : {"llama", "qwen2", "qwen3", "mixtral", "qwen3_moe", "glm4_moe"}) {
    all.push_back({kGolden / "models" / name, kGolden / "models" / name / "expected"});
  }
  for (const char* name : {"mixtral-awq", "mixtral-gptq", "mixtral-nvfp4-compressed-tensors",
                           "qwen3_moe-fp8", "qwen3_moe-nvfp4-modelopt"}) {
    all.push_back({kGolden / "quantized" / name, kGolden / "quantized" / name / "expected"});
  }
  for (const char* name :
       {"llama-f16-bf16", "llama-iq4_nl", "llama-k-mix", "llama-q4_0", "llama-q4_1", "llama-q4_k_m",
        "llama-q8_0", "mixtral-mxfp4", "mixtral-q8_0", "qwen3moe-q4_k_m"}) {
    all.push_back({kGolden / "gguf" / fmt::format("{}.gguf", name),
                   kGolden / "gguf" / fmt::format("{}.expected", name)});
  }
  return all;
}

// One sequence of a test: its tokens so far in the pages it was given.
class TestSequence {
 public:
  TestSequence(LanguageModel& model, std::vector<PageId> pages, int64_t planned_length)
      : model_(model), pages_(std::move(pages)), planned_length_(planned_length) {}

  SequenceSlice slice(std::span<const int32_t> tokens, LogitRows rows,
                      TokenOrigin origin = TokenOrigin::kPrompt) {
    const SequenceSlice slice = {.tokens = tokens,
                                 .position = position_,
                                 .pages = pages_,
                                 .planned_length = planned_length_,
                                 .logits = rows,
                                 .origin = origin};
    position_ += static_cast<int64_t>(tokens.size());
    return slice;
  }

  // Logits of every token, in chunks of `chunk` tokens.
  std::vector<float> run(std::span<const int32_t> tokens, size_t chunk) {
    const auto vocab = static_cast<size_t>(model_.spec().vocab_size);
    std::vector<float> logits(tokens.size() * vocab);
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      const size_t n = std::min(chunk, tokens.size() - at);
      const auto one = slice(tokens.subspan(at, n), LogitRows::kAll);
      const auto done =
          model_.step(std::span(&one, 1), std::span(logits).subspan(at * vocab, n * vocab));
      EXPECT_TRUE(done) << done.error().message;
    }
    return logits;
  }

 private:
  LanguageModel& model_;
  std::vector<PageId> pages_;
  int64_t planned_length_;
  int64_t position_ = 0;
};

inline std::vector<PageId> pages(std::initializer_list<uint32_t> ids) {
  std::vector<PageId> all;
  for (const uint32_t id : ids) all.push_back(PageId{id});
  return all;
}

inline int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

inline std::vector<int32_t> tokens(size_t n, int32_t seed) {
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < n; ++i)
    ids[i] = static_cast<int32_t>((i * 37 + static_cast<size_t>(seed) * 11 + i * i) % 80);
  return ids;
}

// What two sequences get: the first's prompt, which crosses the model a layer a step, and the
// tokens that the second generates in these steps.
struct Crossing {
  std::vector<float> prompt_logits, generated_logits;
};

inline Crossing cross_a_layer_a_step(LanguageModel& model, const SequenceSlice& prompt,
                                     TestSequence& generating, std::span<const int32_t> generated) {
  const auto vocab = static_cast<size_t>(model.spec().vocab_size);
  const int n_layers = model.spec().n_layers();
  std::vector<float> stream(prompt.tokens.size() * static_cast<size_t>(model.spec().hidden_dim));
  Crossing all;
  for (int layer = 0; layer < n_layers; ++layer) {
    const bool is_last = layer + 1 == n_layers;
    SequenceSlice part = prompt;
    part.layers = LayerRange{layer, layer + 1, stream};
    part.logits = is_last ? LogitRows::kAll : LogitRows::kNone;
    const std::array batch = {generating.slice(generated.subspan(static_cast<size_t>(layer), 1),
                                               LogitRows::kLast, TokenOrigin::kGenerated),
                              part};
    std::vector<float> logits((is_last ? prompt.tokens.size() + 1 : 1) * vocab);
    const auto done = model.step(batch, logits);
    EXPECT_TRUE(done) << done.error().message;
    const auto split = logits.begin() + static_cast<int64_t>(vocab);
    all.generated_logits.insert(all.generated_logits.end(), logits.begin(), split);
    all.prompt_logits.insert(all.prompt_logits.end(), split, logits.end());
  }
  return all;
}

// The same two, each alone and through all layers at once.
inline void expect_crossing_changes_nothing(LanguageModel& model) {
  const auto vocab = static_cast<size_t>(model.spec().vocab_size);
  const auto n_layers = static_cast<size_t>(model.spec().n_layers());
  const auto first = tokens(70, 1);
  const auto second = tokens(10 + n_layers, 2);
  const auto second_prompt = std::span<const int32_t>(second).first(10);
  const auto generated = std::span<const int32_t>(second).subspan(10);

  Crossing alone;
  TestSequence a_alone(model, pages({0, 1}), 70);
  a_alone.run(std::span(first).first(20), 20);
  alone.prompt_logits = a_alone.run(std::span(first).subspan(20), 50);
  TestSequence b_alone(model, pages({2}), 64);
  b_alone.run(second_prompt, 10);
  for (size_t i = 0; i < n_layers; ++i) {
    const std::array slice = {
        b_alone.slice(generated.subspan(i, 1), LogitRows::kLast, TokenOrigin::kGenerated)};
    std::vector<float> logits(vocab);
    ASSERT_TRUE(model.step(slice, logits));
    alone.generated_logits.insert(alone.generated_logits.end(), logits.begin(), logits.end());
  }

  TestSequence c(model, pages({6, 3}), 70);
  c.run(std::span(first).first(20), 20);
  TestSequence d(model, pages({5}), 64);
  d.run(second_prompt, 10);
  const SequenceSlice rest = c.slice(std::span(first).subspan(20), LogitRows::kAll);
  const Crossing together = cross_a_layer_a_step(model, rest, d, generated);
  EXPECT_EQ(together.prompt_logits, alone.prompt_logits);
  EXPECT_EQ(together.generated_logits, alone.generated_logits);
}

inline void expect_a_copied_page_serves(LanguageModel& model) {
  const auto ids = tokens(40, 5);
  const auto all = TestSequence(model, pages({0}), 40).run(ids, 40);
  TestSequence sequence(model, pages({1}), 40);
  sequence.run(std::span(ids).first(30), 30);
  model.copy_page(PageId{1}, PageId{6});
  TestSequence copy(model, pages({6}), 40);
  copy.slice(std::span(ids).first(30),
             LogitRows::kNone);  // its tokens are in the copied page already
  const auto last = copy.run(std::span(ids).last(10), 10);
  EXPECT_TRUE(std::ranges::equal(last, std::span(all).last(last.size())));
}

}  // namespace penstock
