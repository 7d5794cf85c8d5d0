// Every golden of the plain families, and the invariances of the exact class, on the whole decoder.
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "kernels/attention/attention.h"
#include "model/load.h"

namespace penstock {
namespace {

const std::filesystem::path kGolden = PENSTOCK_SOURCE_DIR "/tests/golden";
constexpr float kTolerance =
    1e-3F;  // tests/golden/README.md: the limit for a float32 engine, on every logit

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The F32 tensors of a safetensors file, read plainly: these files are ours.
std::map<std::string, std::vector<float>> read_tensors(const std::filesystem::path& path) {
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

std::vector<Golden> goldens() {
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

struct Settings {
  Isa isa = Isa::kScalar;
  int n_threads = 1;
  LoadMode mode = LoadMode::kRead;
  Precision precision = Precision::kExact;
};

std::unique_ptr<LanguageModel> load(const std::filesystem::path& path, Settings settings) {
  auto checkpoint = open_checkpoint(path);
  if (!checkpoint) {
    ADD_FAILURE() << checkpoint.error().text();
    return nullptr;
  }
  auto loaded = load_model(*checkpoint, {.mode = settings.mode,
                                         .n_threads = settings.n_threads,
                                         .precision = settings.precision,
                                         .isa = settings.isa,
                                         .kv_tokens = 1024});
  if (!loaded) {
    ADD_FAILURE() << loaded.error().text();
    return nullptr;
  }
  return std::move(loaded->model);
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

std::vector<PageId> pages(std::initializer_list<uint32_t> ids) {
  std::vector<PageId> all;
  for (const uint32_t id : ids) all.push_back(PageId{id});
  return all;
}

int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

class GoldenTest : public testing::TestWithParam<Golden> {};

TEST_P(GoldenTest, LogitsAndGreedyTokensEqualTheReference) {
  const Json expected = Json::parse(read_file(GetParam().expected.string() + ".json"));
  const auto tensors = read_tensors(GetParam().expected.string() + ".safetensors");
  for (const Isa isa : supported_isas()) {
    const auto model = load(GetParam().model, {.isa = isa, .n_threads = 2});
    ASSERT_TRUE(model);
    const auto vocab = static_cast<size_t>(model->spec().vocab_size);
    for (size_t p = 0; p < expected["prompts"].size(); ++p) {
      SCOPED_TRACE(fmt::format("prompt {} on {}", p, to_string(isa)));
      const Json& prompt = expected["prompts"][p];
      const auto ids = prompt["ids"].get<std::vector<int32_t>>();
      const auto greedy = prompt["greedy"].get<std::vector<int32_t>>();
      TestSequence sequence(*model, pages({3, 1, 2, 0, 5, 4}),
                            static_cast<int64_t>(ids.size() + greedy.size()));
      const auto logits = sequence.run(ids, ids.size());

      const auto& reference = tensors.at(fmt::format("p{}.logits", p));
      const auto positions = prompt["logit_positions"].get<std::vector<size_t>>();
      float worst = 0;
      for (size_t i = 0; i < positions.size(); ++i) {
        for (size_t v = 0; v < vocab; ++v) {
          worst = std::max(worst,
                           std::abs(logits[positions[i] * vocab + v] - reference[i * vocab + v]));
        }
      }
      EXPECT_LE(worst, kTolerance);

      std::vector<int32_t> tokens = {argmax(std::span(logits).last(vocab))};
      while (tokens.size() < greedy.size()) {
        const auto next = sequence.run(std::span(tokens).last(1), 1);
        tokens.push_back(argmax(next));
      }
      EXPECT_EQ(tokens, greedy);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenTest, testing::ValuesIn(goldens()), [](const auto& test) {
  std::string name = test.param.model.stem().string();
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

std::vector<int32_t> tokens(size_t n, int32_t seed) {
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

Crossing cross_a_layer_a_step(LanguageModel& model, const SequenceSlice& prompt,
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
void expect_crossing_changes_nothing(LanguageModel& model) {
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

// The exact class: bits do not depend on chunking, threads, isa, pages, load mode or company.
class InvarianceTest : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path path() const { return kGolden / "models" / GetParam(); }
};

TEST_P(InvarianceTest, ChunksThreadsIsasPagesAndLoadModesGiveTheSameBits) {
  const auto ids = tokens(150, 1);
  const auto reference_model = load(path(), {.isa = Isa::kScalar});
  ASSERT_TRUE(reference_model);
  const auto reference = TestSequence(*reference_model, pages({0, 1, 2}), 150).run(ids, 150);
  for (const Isa isa : supported_isas()) {
    for (const Settings settings :
         {Settings{isa, 1, LoadMode::kMap}, Settings{isa, 2, LoadMode::kRead}}) {
      const auto model = load(path(), settings);
      ASSERT_TRUE(model);
      for (const size_t chunk : {size_t{1}, size_t{7}, size_t{64}, size_t{150}}) {
        EXPECT_EQ(TestSequence(*model, pages({5, 0, 9}), 150).run(ids, chunk), reference)
            << to_string(isa) << ", " << settings.n_threads << " threads, chunks of " << chunk;
      }
    }
  }
}

TEST_P(InvarianceTest, ASequenceDoesNotSeeItsCompany) {
  const auto model = load(path(), {.isa = supported_isas().back(), .n_threads = 2});
  ASSERT_TRUE(model);
  const auto vocab = static_cast<size_t>(model->spec().vocab_size);
  const auto first = tokens(70, 2);
  const auto second = tokens(33, 3);
  const auto first_alone = TestSequence(*model, pages({0, 1}), 70).run(first, 70);
  const auto second_alone = TestSequence(*model, pages({2}), 33).run(second, 33);

  TestSequence a(*model, pages({7, 3}), 70);
  TestSequence b(*model, pages({4}), 33);
  std::vector<float> a_logits, b_logits, logits;
  // Step by step: 20 and 3 tokens, then 50 and 30.
  for (const auto& [a_tokens, b_tokens] :
       {std::pair{std::span(first).first(20), std::span(second).first(3)},
        std::pair{std::span(first).last(50), std::span(second).last(30)}}) {
    const std::array batch = {a.slice(a_tokens, LogitRows::kAll),
                              b.slice(b_tokens, LogitRows::kAll)};
    logits.resize((a_tokens.size() + b_tokens.size()) * vocab);
    ASSERT_TRUE(model->step(batch, logits));
    const auto split = logits.begin() + static_cast<int64_t>(a_tokens.size() * vocab);
    a_logits.insert(a_logits.end(), logits.begin(), split);
    b_logits.insert(b_logits.end(), split, logits.end());
  }
  EXPECT_EQ(a_logits, first_alone);
  EXPECT_EQ(b_logits, second_alone);
}

TEST_P(InvarianceTest, APromptThatCrossesALayerAStepGetsTheSameBits) {
  const auto model = load(path(), {.isa = supported_isas().back(), .n_threads = 2});
  ASSERT_TRUE(model);
  expect_crossing_changes_nothing(*model);
}

TEST_P(InvarianceTest, LogitRowsAreThoseAskedFor) {
  const auto model = load(path(), {.isa = supported_isas().back()});
  ASSERT_TRUE(model);
  const auto vocab = static_cast<size_t>(model->spec().vocab_size);
  const auto ids = tokens(10, 4);
  const auto all = TestSequence(*model, pages({0}), 10).run(ids, 10);
  TestSequence a(*model, pages({1}), 10);
  TestSequence b(*model, pages({2}), 10);
  const std::array batch = {a.slice(ids, LogitRows::kNone), b.slice(ids, LogitRows::kLast)};
  std::vector<float> logits(vocab);
  ASSERT_TRUE(model->step(batch, logits));
  EXPECT_TRUE(std::ranges::equal(logits, std::span(all).last(vocab)));
}

TEST_P(InvarianceTest, ATokenOutsideTheVocabularyIsRefusedBeforeAnythingIsComputed) {
  const auto model = load(path(), {.isa = supported_isas().back()});
  ASSERT_TRUE(model);
  const auto page = pages({0});
  std::vector<float> logits(static_cast<size_t>(model->spec().vocab_size));
  for (const int32_t wrong : {-1, static_cast<int32_t>(model->spec().vocab_size)}) {
    const std::array<int32_t, 2> ids = {1, wrong};
    const SequenceSlice slice = {.tokens = ids, .position = 0, .pages = page, .planned_length = 2};
    const auto done = model->step(std::span(&slice, 1), logits);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST_P(InvarianceTest, ACopiedPageServesAsWell) {
  const auto model = load(path(), {.isa = supported_isas().back()});
  ASSERT_TRUE(model);
  const auto ids = tokens(40, 5);
  const auto all = TestSequence(*model, pages({0}), 40).run(ids, 40);
  TestSequence sequence(*model, pages({1}), 40);
  sequence.run(std::span(ids).first(30), 30);
  model->copy_page(PageId{1}, PageId{6});
  TestSequence copy(*model, pages({6}), 40);
  copy.slice(std::span(ids).first(30),
             LogitRows::kNone);  // its tokens are in the copied page already
  const auto last = copy.run(std::span(ids).last(10), 10);
  EXPECT_TRUE(std::ranges::equal(last, std::span(all).last(last.size())));
}

INSTANTIATE_TEST_SUITE_P(Families, InvarianceTest,
                         testing::Values("llama", "qwen2", "qwen3_moe", "glm4_moe"));

// The fast class: the bits of a prompt's token do not depend on chunks, threads, company and on how
// weights are laid out, nor do those of a generated one.
class FastInvarianceTest : public testing::TestWithParam<const char*> {
 protected:
  // As stored, or interleaved where the class does that.
  static std::unique_ptr<LanguageModel> load_fast(Isa isa, int n_threads,
                                                  LoadMode mode = LoadMode::kRead) {
    return load(kGolden / "gguf" / GetParam(),
                {.isa = isa, .n_threads = n_threads, .mode = mode, .precision = Precision::kFast});
  }
};

TEST_P(FastInvarianceTest, ChunksAndLayoutsDoNotMatter) {
  const auto ids = tokens(150, 1);
  for (const Isa isa : supported_isas()) {
    const auto reference_model = load_fast(isa, 1, LoadMode::kMap);
    ASSERT_TRUE(reference_model);
    const auto reference = TestSequence(*reference_model, pages({0, 1, 2}), 150).run(ids, 150);
    const auto model = load_fast(isa, 2);
    ASSERT_TRUE(model);
    for (const size_t chunk : {size_t{1}, size_t{7}, size_t{64}}) {
      EXPECT_EQ(TestSequence(*model, pages({5, 0, 9}), 150).run(ids, chunk), reference)
          << to_string(isa) << ", chunks of " << chunk;
    }
  }
}

TEST_P(FastInvarianceTest, LayersAStepDoNotMatter) {
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(to_string(isa));
    const auto model = load_fast(isa, 2);
    ASSERT_TRUE(model);
    expect_crossing_changes_nothing(*model);
  }
}

// Three sequences generate side by side, and a prompt's chunk takes part in every step, in front of
// them, between them or behind them.
TEST_P(FastInvarianceTest, CompanyDoesNotMatter) {
  for (const Isa isa : supported_isas()) {
    const auto model = load_fast(isa, 2);
    ASSERT_TRUE(model);
    const auto vocab = static_cast<size_t>(model->spec().vocab_size);
    constexpr uint32_t kSequences = 3;
    constexpr size_t kSteps = 6;
    std::vector<std::vector<int32_t>> ids;
    std::vector<std::vector<float>> alone(kSequences);
    std::vector<TestSequence> together;
    for (uint32_t s = 0; s < kSequences; ++s) {
      ids.push_back(tokens(10 + 3 * s + kSteps, static_cast<int32_t>(s)));
      const std::span<const int32_t> prompt = std::span(ids[s]).first(10 + 3 * s);
      TestSequence one(*model, pages({s}), 64);
      one.run(prompt, 64);
      for (size_t i = 0; i < kSteps; ++i) {
        const std::array slice = {one.slice(std::span(ids[s]).subspan(prompt.size() + i, 1),
                                            LogitRows::kLast, TokenOrigin::kGenerated)};
        alone[s].resize((i + 1) * vocab);
        ASSERT_TRUE(model->step(slice, std::span(alone[s]).last(vocab)));
      }
      together.emplace_back(*model, pages({8 + s}), 64);
      together.back().run(prompt, 64);
    }
    const auto long_ids = tokens(60, 9);
    TestSequence prompt(*model, pages({14}), 64);
    for (size_t i = 0; i < kSteps; ++i) {
      std::vector<SequenceSlice> batch;
      for (uint32_t s = 0; s <= kSequences; ++s) {
        if (s == i % (kSequences + 1)) {
          batch.push_back(prompt.slice(std::span(long_ids).subspan(i * 10, 10), LogitRows::kNone));
        }
        if (s == kSequences) break;
        batch.push_back(together[s].slice(std::span(ids[s]).subspan(10 + 3 * s + i, 1),
                                          LogitRows::kLast, TokenOrigin::kGenerated));
      }
      std::vector<float> logits(kSequences * vocab);
      ASSERT_TRUE(model->step(batch, logits));
      for (size_t s = 0; s < kSequences; ++s) {
        EXPECT_TRUE(std::ranges::equal(std::span(logits).subspan(s * vocab, vocab),
                                       std::span(alone[s]).subspan(i * vocab, vocab)))
            << to_string(isa) << ", step " << i << ", sequence " << s;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, FastInvarianceTest,
                         testing::Values("llama-q4_1.gguf", "llama-k-mix.gguf",
                                         "llama-f16-bf16.gguf", "mixtral-mxfp4.gguf",
                                         "qwen3moe-q4_k_m.gguf"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace penstock
