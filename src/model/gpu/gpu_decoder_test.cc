// The decoder on a GPU against the goldens, and what the class `gpu` promises: on the fake driver,
// whose kernels are the scalar references, and on a real GPU where there is one.
#include "model/gpu/gpu_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/gpu/gpu_kernels.h"
#include "model/golden_models_test.h"
#include "model/gpu/gpu_load.h"

namespace penstock {
namespace {

Result<GpuTarget> fake_gpu() {
  auto driver = std::make_shared<FakeDriver>();
  add_gpu_stand_ins(*driver);
  return GpuTarget{.name = "a fake GPU", .driver = std::move(driver)};
}

Result<GpuTarget> nvidia_gpu() { return open_gpu("", Log::to_stderr()); }

using OpenGpu = Result<GpuTarget> (*)();

// Goldens in formats that no GPU kernel knows yet.
const std::set<std::string> kUnsupported = {"mixtral-awq",    "mixtral-gptq",  "llama-iq4_nl",
                                            "llama-k-mix",    "mixtral-mxfp4", "llama-q4_k_m",
                                            "qwen3moe-q4_k_m"};

std::string identifier(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

class GpuModelTest : public testing::TestWithParam<std::tuple<OpenGpu, Golden>> {
 protected:
  void SetUp() override {
    auto opened = std::get<0>(GetParam())();
    if (!opened) GTEST_SKIP() << opened.error().text();
    target_ = *std::move(opened);
  }
  const Golden& golden() const { return std::get<1>(GetParam()); }
  bool is_supported() const { return !kUnsupported.contains(golden().model.stem().string()); }

  Result<LoadedModel> try_load(bool use_graphs = true, ExpertSlots slots = {},
                               PinOptions pins = {}) {
    const auto checkpoint = open_checkpoint(golden().model);
    if (!checkpoint) return std::unexpected(checkpoint.error());
    target_.use_graphs = use_graphs;
    target_.pins = pins;
    return load_model(*checkpoint,
                      {.expert_slots = slots, .n_threads = 2, .kv_tokens = 1024, .gpu = target_});
  }
  std::unique_ptr<LanguageModel> load(bool use_graphs = true, ExpertSlots slots = {},
                                      PinOptions pins = {}) {
    auto loaded = try_load(use_graphs, slots, pins);
    EXPECT_TRUE(loaded) << loaded.error().text();
    return loaded ? std::move(loaded->model) : nullptr;
  }

 private:
  GpuTarget target_;
};

std::string name_of(const testing::TestParamInfo<std::tuple<OpenGpu, Golden>>& test) {
  return identifier(std::get<1>(test.param).model.stem().string());
}

INSTANTIATE_TEST_SUITE_P(Fake, GpuModelTest,
                         testing::Combine(testing::Values(&fake_gpu), testing::ValuesIn(goldens())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Nvidia, GpuModelTest,
                         testing::Combine(testing::Values(&nvidia_gpu),
                                          testing::ValuesIn(goldens())),
                         name_of);

// Root mean square of the differences, as a share of that of the reference.
double relative_error(std::span<const float> found, std::span<const float> reference) {
  double difference = 0;
  double whole = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - reference[i], 2);
    whole += std::pow(static_cast<double>(reference[i]), 2);
  }
  return std::sqrt(difference / whole);
}

// Activations have 8 bits: each product's input is off by up to 2^-9 of itself, at random.
constexpr double kBound = 0.02;

TEST_P(GpuModelTest, LogitsAreTheReferencesWithinTheClassesBound) {
  if (!is_supported()) {
    const auto loaded = try_load();
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().kind, ErrorKind::kUnsupported) << loaded.error().text();
    return;
  }
  const auto model = load();
  ASSERT_TRUE(model);
  const Json expected = Json::parse(read_file(golden().expected.string() + ".json"));
  const auto tensors = read_tensors(golden().expected.string() + ".safetensors");
  const auto vocab = static_cast<size_t>(model->spec().vocab_size);
  for (size_t p = 0; p < expected["prompts"].size(); ++p) {
    const Json& prompt = expected["prompts"][p];
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    TestSequence sequence(*model, pages({3, 1, 2, 0, 5, 4}),
                          std::ssize(ids) + std::ssize(prompt["greedy"]));
    const auto logits = sequence.run(ids, ids.size());
    std::vector<float> wanted;
    for (const size_t position : prompt["logit_positions"].get<std::vector<size_t>>()) {
      const auto row = std::span(logits).subspan(position * vocab, vocab);
      wanted.insert(wanted.end(), row.begin(), row.end());
    }
    const double error = relative_error(wanted, tensors.at(fmt::format("p{}.logits", p)));
    RecordProperty(fmt::format("relative_error_{}", p), fmt::format("{:.5f}", error));
    EXPECT_LE(error, kBound) << "prompt " << p;
  }
}

TEST_P(GpuModelTest, ChunksLayersAndCompanyChangeNoBit) {
  if (!is_supported()) GTEST_SKIP() << "a format without GPU kernels";
  const auto model = load();
  ASSERT_TRUE(model);
  const auto ids = tokens(150, 1);
  const auto reference = TestSequence(*model, pages({0, 1, 2}), 150).run(ids, 150);
  for (const size_t chunk : {size_t{1}, size_t{7}, size_t{64}}) {
    EXPECT_EQ(TestSequence(*model, pages({5, 0, 9}), 150).run(ids, chunk), reference)
        << "chunks of " << chunk;
  }
  expect_crossing_changes_nothing(*model);
}

// What three sequences say that decode together, from within one split of keys into the next.
std::vector<float> decode_together(LanguageModel& model) {
  const auto vocab = static_cast<size_t>(model.spec().vocab_size);
  const auto ids = tokens(290, 3);
  std::vector<TestSequence> sequences;
  sequences.emplace_back(model, pages({0, 1, 2, 3, 4}), 290);
  sequences.emplace_back(model, pages({5}), 64);
  sequences.emplace_back(model, pages({7, 6}), 128);
  const std::vector<size_t> prompts = {250, 5, 60};
  for (size_t s = 0; s < sequences.size(); ++s) {
    sequences[s].run(std::span(ids).first(prompts[s]), 64);
  }
  std::vector<float> all;
  for (size_t i = 0; i < 10; ++i) {
    std::vector<SequenceSlice> batch;
    for (size_t s = 0; s < sequences.size(); ++s) {
      batch.push_back(sequences[s].slice(std::span(ids).subspan(prompts[s] + i, 1),
                                         LogitRows::kLast, TokenOrigin::kGenerated));
    }
    std::vector<float> logits(sequences.size() * vocab);
    const auto done = model.step(batch, logits);
    EXPECT_TRUE(done) << done.error().text();
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST_P(GpuModelTest, GraphsChangeNoBit) {
  if (!is_supported()) GTEST_SKIP() << "a format without GPU kernels";
  const auto call_by_call = load(/*use_graphs=*/false);
  ASSERT_TRUE(call_by_call);
  const auto reference = decode_together(*call_by_call);
  const auto graphed = load();
  ASSERT_TRUE(graphed);
  EXPECT_EQ(decode_together(*graphed), reference);
  EXPECT_EQ(decode_together(*graphed), reference) << "the second time";
}

TEST_P(GpuModelTest, SlotsAndPinsChangeNoBit) {
  if (!is_supported()) GTEST_SKIP() << "a format without GPU kernels";
  const auto resident = load();
  ASSERT_TRUE(resident);
  if (resident->spec().moe.n_experts == 0) GTEST_SKIP() << "a dense model";
  const auto ids = tokens(150, 1);
  const auto prompt = TestSequence(*resident, pages({10, 11, 12}), 150).run(ids, 64);
  const auto decoded = decode_together(*resident);
  for (const ExpertSlots slots : {ExpertSlots{.count = 1}, ExpertSlots{.count = 3},
                                  ExpertSlots{.share = 0.25}, ExpertSlots{.share = 0.8}}) {
    for (const PinOptions pins :
         {PinOptions{}, PinOptions{.is_enabled = false}, PinOptions{.budget_bytes = 96 * 1024}}) {
      SCOPED_TRACE(fmt::format("{} slots, {} of them, pins {} of {}", slots.count.value_or(0),
                               slots.share.value_or(0), pins.is_enabled, pins.budget_bytes));
      const auto model = load(/*use_graphs=*/true, slots, pins);
      ASSERT_TRUE(model);
      EXPECT_EQ(TestSequence(*model, pages({10, 11, 12}), 150).run(ids, 64), prompt);
      EXPECT_EQ(decode_together(*model), decoded);
      const auto counts = model->expert_counts();
      ASSERT_TRUE(counts);
      EXPECT_GT(counts->n_misses, 0);
    }
  }
}

TEST_P(GpuModelTest, ACopiedPageServesAsWell) {
  if (!is_supported()) GTEST_SKIP() << "a format without GPU kernels";
  const auto model = load();
  ASSERT_TRUE(model);
  expect_a_copied_page_serves(*model);
}

// What a GPU refuses ends the load with one error, and nothing is left behind: the fake driver
// checks.
void refuse_each_call(double share) {
  const auto checkpoint = open_checkpoint(kGolden / "models" / "qwen3_moe");
  ASSERT_TRUE(checkpoint);
  for (int64_t k = 1;; ++k) {
    FakeDriverOptions options;
    options.refusals = {{.call = {}, .first = k}};
    auto driver = std::make_shared<FakeDriver>(options);
    add_gpu_stand_ins(*driver);
    auto loaded = load_model(*checkpoint, {.expert_slots = {.share = share},
                                           .n_threads = 1,
                                           .kv_tokens = 64,
                                           .gpu = GpuTarget{.driver = driver}});
    if (driver->n_calls() < k) break;
    if (!loaded) {
      EXPECT_NE(loaded.error().message, "") << k;
      continue;
    }
    // A pin was refused, which is a wish.
    TestSequence(*loaded->model, pages({0}), 9).run(tokens(9, 1), 9);
  }
}

TEST(GpuLoadTest, ARefusedCallIsAnErrorWithNothingLeft) { refuse_each_call(1.0); }
TEST(GpuLoadTest, ARefusedCallWhereExpertsAreCachedToo) { refuse_each_call(0.5); }

// In a step: an error, and the next step is as if nothing had been.
TEST(GpuLoadTest, ARefusedCallOfAStepIsThatStepsError) {
  const auto checkpoint = open_checkpoint(kGolden / "models" / "qwen3_moe");
  ASSERT_TRUE(checkpoint);
  const auto ids = tokens(9, 1);
  std::vector<float> expected;
  int64_t n_copies_of_load = 0;
  for (int64_t k = 0;; ++k) {
    FakeDriverOptions options;
    if (k > 0)
      options.refusals = {{.call = DriverCall::kCopyToDevice, .first = n_copies_of_load + k}};
    auto driver = std::make_shared<FakeDriver>(options);
    add_gpu_stand_ins(*driver);
    const auto loaded = load_model(*checkpoint, {.expert_slots = {.count = 2},
                                                 .n_threads = 1,
                                                 .kv_tokens = 64,
                                                 .gpu = GpuTarget{.driver = driver}});
    ASSERT_TRUE(loaded) << loaded.error().text();
    n_copies_of_load = driver->n_calls(DriverCall::kCopyToDevice);
    LanguageModel& model = *loaded->model;
    if (k == 0) {
      expected = TestSequence(model, pages({0}), 9).run(ids, 9);
      continue;
    }
    const auto page = pages({0});
    std::vector<float> logits(static_cast<size_t>(model.spec().vocab_size));
    const SequenceSlice slice = {.tokens = ids, .pages = page, .planned_length = 9};
    const auto done = model.step(std::span(&slice, 1), logits);
    const bool was_refused = driver->n_calls(DriverCall::kCopyToDevice) >= n_copies_of_load + k;
    EXPECT_EQ(done.has_value(), !was_refused) << k;
    if (!was_refused) break;
    EXPECT_EQ(TestSequence(model, pages({0}), 9).run(ids, 9), expected) << k;
  }
}

TEST(GpuLoadTest, APageThatWasNotCopiedIsTheNextStepsError) {
  const auto checkpoint = open_checkpoint(kGolden / "models" / "qwen3_moe");
  ASSERT_TRUE(checkpoint);
  const auto ids = tokens(9, 1);
  int64_t n_launches = 0;
  for (const bool is_refused : {false, true}) {
    FakeDriverOptions options;
    if (is_refused) options.refusals = {{.call = DriverCall::kLaunch, .first = n_launches + 1}};
    auto driver = std::make_shared<FakeDriver>(options);
    add_gpu_stand_ins(*driver);
    const auto loaded = load_model(
        *checkpoint, {.n_threads = 1, .kv_tokens = 128, .gpu = GpuTarget{.driver = driver}});
    ASSERT_TRUE(loaded) << loaded.error().text();
    LanguageModel& model = *loaded->model;
    const auto expected = TestSequence(model, pages({0}), 9).run(ids, 9);
    n_launches = driver->n_calls(DriverCall::kLaunch);
    model.copy_page(PageId{0}, PageId{1});
    const auto page = pages({1});
    std::vector<float> logits(static_cast<size_t>(model.spec().vocab_size));
    const SequenceSlice slice = {.tokens = ids, .pages = page, .planned_length = 9};
    EXPECT_EQ(model.step(std::span(&slice, 1), logits).has_value(), !is_refused);
    EXPECT_EQ(TestSequence(model, pages({0}), 9).run(ids, 9), expected);
  }
}

TEST(GpuLoadTest, ABudgetThatIsTooSmallIsRefusedWithTheNumbers) {
  const auto checkpoint = open_checkpoint(kGolden / "models" / "qwen3_moe");
  ASSERT_TRUE(checkpoint);
  auto target = fake_gpu();
  ASSERT_TRUE(target);
  target->vram_budget_bytes = 64 * 1024;
  const auto loaded = load_model(*checkpoint, {.n_threads = 1, .gpu = *target});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::kExhausted);
  EXPECT_NE(loaded.error().text().find("--vram-budget"), std::string::npos);
}

}  // namespace
}  // namespace penstock
