// Every golden of the plain families, and the invariances of the exact class, on the whole decoder.
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "model/golden_models_test.h"
#include "model/load.h"

namespace penstock {
namespace {

constexpr float kTolerance =
    1e-3F;  // tests/golden/README.md: the limit for a float32 engine, on every logit

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
  expect_a_copied_page_serves(*model);
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
