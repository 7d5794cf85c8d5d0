#include "cli/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock {
namespace {

using Windows = std::vector<Window>;

TEST(PlanWindows, SideBySide) {
  // Without a prefix the first token of a window has nothing before it and does not count.
  EXPECT_EQ(plan_windows(10, /*has_prefix=*/false, {.window = 4, .stride = 4}),
            (Windows{{0, 1, 4}, {4, 5, 8}, {8, 9, 10}}));
  EXPECT_EQ(plan_windows(10, /*has_prefix=*/true, {.window = 4, .stride = 4}),
            (Windows{{0, 0, 4}, {4, 4, 8}, {8, 8, 10}}));
}

TEST(PlanWindows, OverlappingOnesCountEachTokenOnce) {
  EXPECT_EQ(plan_windows(10, /*has_prefix=*/false, {.window = 6, .stride = 2}),
            (Windows{{0, 1, 6}, {2, 6, 8}, {4, 8, 10}}));
}

TEST(PlanWindows, EveryTokenThatCanCountDoes) {
  for (int64_t n = 1; n < 40; ++n) {
    for (int64_t window = 2; window < 12; ++window) {
      for (int64_t stride = 1; stride <= window; ++stride) {
        std::vector<int> counts(static_cast<size_t>(n), 0);
        for (const Window& w : plan_windows(n, /*has_prefix=*/true, {window, stride})) {
          EXPECT_LE(w.end - w.begin, window);
          for (int64_t i = w.counted; i < w.end; ++i) ++counts[static_cast<size_t>(i)];
        }
        EXPECT_EQ(counts, std::vector<int>(static_cast<size_t>(n), 1))
            << n << " " << window << " " << stride;
      }
    }
  }
}

TEST(PlanWindows, ASingleTokenAtTheEndHasNothingBeforeIt) {
  EXPECT_EQ(plan_windows(5, /*has_prefix=*/false, {.window = 4, .stride = 4}),
            (Windows{{0, 1, 4}}));
}

TEST(CheckWindows, RefusesWhatWouldBeWrong) {
  const TextTokens text = {.prefix = {1}, .ids = std::vector<int32_t>(100, 2)};
  EXPECT_TRUE(check({.window = 50, .stride = 50}, text, 51));
  EXPECT_FALSE(check({.window = 50, .stride = 51}, text, 1000));    // would skip a token
  EXPECT_FALSE(check({.window = 50, .stride = 50}, text, 50));      // the prefix does not fit
  EXPECT_TRUE(check({.window = 5000, .stride = 5000}, text, 101));  // the text is shorter
  EXPECT_FALSE(check({}, {.prefix = {}, .ids = {7}}, 1000));        // nothing to predict
}

// Logits that depend on the token alone: after t comes t + 1, with a lead of log(3) over the rest.
class SuccessorModel : public LanguageModel {
 public:
  SuccessorModel() {
    spec_.vocab_size = kVocabulary;
    spec_.context_length = 64;
  }
  const ModelSpec& spec() const override { return spec_; }
  int64_t n_pages() const override { return 4; }
  void copy_page(PageId, PageId) override {}
  Result<void> step(std::span<const SequenceSlice> batch, std::span<float> logits) override {
    size_t row = 0;
    for (const SequenceSlice& slice : batch) {
      EXPECT_EQ(slice.position, slice.position == 0 ? 0 : next_position_);
      next_position_ = slice.position + static_cast<int64_t>(slice.tokens.size());
      for (size_t i = 0; i < slice.tokens.size(); ++i) {
        if (slice.logits == LogitRows::kNone) continue;
        if (slice.logits == LogitRows::kLast && i + 1 < slice.tokens.size()) continue;
        const auto out = logits.subspan(row++ * kVocabulary, kVocabulary);
        std::ranges::fill(out, 0.0F);
        out[static_cast<size_t>(slice.tokens[i] + 1) % kVocabulary] = std::log(3.0F);
      }
    }
    EXPECT_EQ(logits.size(), row * kVocabulary);
    return {};
  }

  void expect_position(int64_t position) { next_position_ = position; }

  static constexpr size_t kVocabulary = 8;

 private:
  ModelSpec spec_ = {};
  int64_t next_position_ = 0;
};

// 8 tokens: the likely one has 3 / (3 + 7), the others 1 / (3 + 7).
TEST(Measure, AddsUpWhatTheModelSays) {
  SuccessorModel model;
  const TextTokens text = {.prefix = {}, .ids = {0, 1, 2, 3, 7, 0, 1}};  // one surprise: 7 after 3
  for (const int64_t chunk : {1, 2, 3, 100}) {
    SequenceRunner runner(model, chunk);
    const auto found = measure(runner, text, {.window = 7, .stride = 7});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->n_tokens, 6);
    EXPECT_NEAR(found->total_nll, -5 * std::log(0.3) - std::log(0.1), 1e-6) << chunk;
  }
}

TEST(Measure, OverlapChangesWhatHasContextNotWhatCounts) {
  SuccessorModel model;
  SequenceRunner runner(model, 4);
  const TextTokens text = {.prefix = {7}, .ids = {0, 1, 2, 3, 4, 5}};
  for (const int64_t stride : {1, 2, 3}) {
    const auto found = measure(runner, text, {.window = 3, .stride = stride});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->n_tokens, 6);
    // A window that starts side by side predicts its first token from the prefix: right only for 0.
    const int n_wrong = stride == 3 ? 1 : 0;
    EXPECT_NEAR(found->total_nll, -(6 - n_wrong) * std::log(0.3) - n_wrong * std::log(0.1), 1e-6);
  }
}

// The model itself checks that positions follow each other.
TEST(SequenceRunner, GoesOnBehindWhatARewindLeaves) {
  SuccessorModel model;
  SequenceRunner runner(model, 4);
  const auto nothing = [](std::span<const float>) { return Result<void>(); };
  const std::vector<int32_t> tokens = {0, 1, 2, 3, 4};
  ASSERT_TRUE(runner.begin(8));
  ASSERT_TRUE(runner.extend(tokens, TokenOrigin::kPrompt, LogitRows::kLast, nothing));
  runner.rewind(3);
  model.expect_position(3);
  ASSERT_TRUE(runner.extend(tokens, TokenOrigin::kPrompt, LogitRows::kLast, nothing));
}

TEST(SequenceRunner, RefusesMoreThanTheContext) {
  SuccessorModel model;
  SequenceRunner runner(model, 4);
  EXPECT_TRUE(runner.begin(64));
  const auto refused = runner.begin(65);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the sequence has 65 tokens, the context has room for 64");
}

}  // namespace
}  // namespace penstock
