// Where a model's experts are changes nothing of what it says: every tier, every pin budget, one
// sequence and four. On tiny mixtures whose experts differ, and on the model that
// $PENSTOCK_TIERS_MODEL names (scripts/test.sh: the upcycled SmolLM2).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "cuda/fake_driver.h"
#include "kernels/attention/attention.h"
#include "memory/expert_layout.h"
#include "memory/layer_set.h"
#include "model/load.h"
#include "os/environment.h"

namespace penstock {
namespace {

constexpr int64_t kGenerated = 12;

// Where the banks of a model's layers are, and how many slots those on disk share.
struct Tier {
  std::string name;
  std::vector<Residency> banks;
  ExpertSlots slots = {};
};

std::vector<Residency> chosen(int n_layers, const std::string& layers, Residency residency,
                              Residency others) {
  const LayerSet set = select_layers(layers, n_layers, "--layers").value().layers;
  std::vector<Residency> banks;
  for (int layer = 0; layer < n_layers; ++layer) {
    banks.push_back(set.contains(layer) ? residency : others);
  }
  return banks;
}

std::vector<Tier> tiers_of(int n_layers) {
  const auto all = [&](Residency residency) {
    return std::vector<Residency>(static_cast<size_t>(n_layers), residency);
  };
  std::vector<Tier> tiers = {
      {"all pinned", all(Residency::kPinned)},
      {"half pinned, half pageable",
       chosen(n_layers, "0.5", Residency::kPinned, Residency::kPageable)},
      {"head and tail not pinned",
       chosen(n_layers, "head:1,tail:1", Residency::kLocked, Residency::kPinned)},
      {"all locked", all(Residency::kLocked)},
      {"all pageable", all(Residency::kPageable)},
      {"half pinned, half on disk",
       chosen(n_layers, "0.5", Residency::kPinned, Residency::kDisk),
       {.share = 0.3}}};
  for (const double share : {0.1, 0.25, 0.5, 1.0}) {
    tiers.push_back({fmt::format("all on disk, {} of the slots", share),
                     all(Residency::kDisk),
                     {.share = share}});
  }
  return tiers;
}

uint64_t expert_bytes(const Checkpoint& checkpoint) {
  return ExpertLayout::make(checkpoint).value().weight_bytes();
}

int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// The greedy tokens of several sequences that run together, one prompt after the other.
std::vector<std::vector<int32_t>> greedy(LanguageModel& model,
                                         std::span<const std::vector<int32_t>> prompts) {
  const auto vocab = static_cast<size_t>(model.spec().vocab_size);
  std::vector<std::vector<int32_t>> said(prompts.size());
  std::vector<PageId> pages;
  for (uint32_t i = 0; i < prompts.size(); ++i) pages.push_back(PageId{i});
  const auto slice = [&](size_t i, std::span<const int32_t> tokens, int64_t position,
                         TokenOrigin origin) {
    return SequenceSlice{.tokens = tokens,
                         .position = position,
                         .pages = std::span(pages).subspan(i, 1),
                         .planned_length = kPageTokens,
                         .logits = LogitRows::kLast,
                         .origin = origin};
  };
  std::vector<float> logits(prompts.size() * vocab);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto prompt = slice(i, prompts[i], 0, TokenOrigin::kPrompt);
    const auto done = model.step(std::span(&prompt, 1), std::span(logits).first(vocab));
    EXPECT_TRUE(done) << done.error().message;
    said[i].push_back(argmax(std::span(logits).first(vocab)));
  }
  for (int64_t n = 1; n < kGenerated; ++n) {
    std::vector<SequenceSlice> batch;
    for (size_t i = 0; i < prompts.size(); ++i) {
      batch.push_back(slice(i, std::span(said[i]).last(1), std::ssize(prompts[i]) + n - 1,
                            TokenOrigin::kGenerated));
    }
    const auto done = model.step(batch, logits);
    EXPECT_TRUE(done) << done.error().message;
    for (size_t i = 0; i < prompts.size(); ++i) {
      said[i].push_back(argmax(std::span(logits).subspan(i * vocab, vocab)));
    }
  }
  return said;
}

std::vector<std::vector<int32_t>> prompts_of(size_t n, int64_t vocab_size) {
  std::vector<std::vector<int32_t>> prompts(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t t = 0; t < 9 + 7 * i; ++t) {
      prompts[i].push_back(static_cast<int32_t>(
          (t * 37 + t * t + 11 * i) % static_cast<size_t>(std::min(vocab_size, int64_t{80}))));
    }
  }
  return prompts;
}

class TiersTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(TiersTest, TokensDoNotDependOnWhereExpertsAre) {
  const auto checkpoint = open_checkpoint(GetParam());
  ASSERT_TRUE(checkpoint) << checkpoint.error().text();
  const uint64_t all_bytes = expert_bytes(*checkpoint);
  const size_t budgets[] = {0, 64 * kKiB, all_bytes / 2, PinOptions::kNoBudget};
  for (const Precision precision : {Precision::kExact, Precision::kFast}) {
    const LoadOptions in_ram = {
        .mode = LoadMode::kRead, .n_threads = 2, .precision = precision, .kv_tokens = 256};
    auto reference = load_model(*checkpoint, in_ram);
    ASSERT_TRUE(reference) << reference.error().text();
    const auto four = prompts_of(4, checkpoint->spec.vocab_size);
    const auto expected_one = greedy(*reference->model, std::span(four).first(1));
    const auto expected_four = greedy(*reference->model, four);
    reference->model.reset();
    for (const Tier& tier : tiers_of(checkpoint->spec.n_layers())) {
      const bool pins_some = std::ranges::count(tier.banks, Residency::kPinned) > 0;
      for (const size_t budget : budgets) {
        if (!pins_some && budget != PinOptions::kNoBudget) continue;  // it is asked for nothing
        SCOPED_TRACE(fmt::format("{}, {}, pin budget {}", to_string(precision), tier.name, budget));
        FakeDriver driver({.pins = {.call_bytes = kMiB}});
        PinStore pins(driver, {.budget_bytes = budget}, Log::none());
        {
          LoadOptions options = in_ram;
          options.mode = LoadMode::kAuto;
          options.banks = tier.banks;
          options.expert_slots = tier.slots;
          options.pins = &pins;
          const auto loaded = load_model(*checkpoint, options);
          ASSERT_TRUE(loaded) << loaded.error().text();
          EXPECT_LE(driver.registered_bytes(), budget);
          EXPECT_EQ(driver.registered_bytes() > 0, pins_some && budget > 0);
          EXPECT_EQ(greedy(*loaded->model, std::span(four).first(1)), expected_one);
          EXPECT_EQ(greedy(*loaded->model, four), expected_four);
        }
        EXPECT_EQ(driver.registered_bytes(), 0u);
        if (!pins_some) {
          EXPECT_EQ(driver.n_calls(DriverCall::kRegister), 0);
        }
      }
    }
  }
}

std::vector<std::filesystem::path> models() {
  const std::filesystem::path golden = PENSTOCK_SOURCE_DIR "/tests/golden";
  std::vector<std::filesystem::path> all = {
      golden / "models" / "mixtral", golden / "models" / "glm4_moe",
      golden / "quantized" / "qwen3_moe-nvfp4-modelopt", golden / "gguf" / "qwen3moe-q4_k_m.gguf"};
  if (const auto more = environment_variable("PENSTOCK_TIERS_MODEL"); !more.empty()) {
    all.emplace_back(more);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, TiersTest, testing::ValuesIn(models()), [](const auto& test) {
  std::string name = test.param.filename().string();
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace penstock
