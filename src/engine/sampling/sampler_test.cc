#include "engine/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace penstock {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Result<int32_t> sample_once(const SamplingOptions& options, std::vector<float> logits,
                            TokenHistory history = {}) {
  PENSTOCK_ASSIGN(const SampledToken token, Sampler(options).sample(logits, history));
  return token.id;
}

std::vector<float> random_logits(uint32_t seed, size_t n) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(Sampler, GreedyTakesTheLowestIdAmongTheLargest) {
  const SamplingOptions greedy{.temperature = 0.0};
  EXPECT_EQ(sample_once(greedy, {1.0F, 3.0F, 3.0F, 2.0F}), 1);
  EXPECT_EQ(sample_once(greedy, {-kInf, -5.0F, -kInf}), 1);
  EXPECT_EQ(sample_once(greedy, {-0.0F, 0.0F}), 0);
}

// BC-54
TEST(Sampler, TinyTemperaturesAndExtremeCutsAreGreedy) {
  const std::vector<float> logits = {0.1F, 0.2F, 0.2F, -30.0F};
  for (const double temperature : {1e-6, 1e-45, 1e-300}) {
    EXPECT_EQ(sample_once({.temperature = temperature}, logits), 1) << temperature;
  }
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(sample_once({.top_k = 1, .seed = seed}, logits), 1);
    EXPECT_EQ(sample_once({.top_p = 0.0, .seed = seed}, logits), 1);
    // Both tokens at 0.2 are as likely as the most likely one.
    EXPECT_NE(sample_once({.min_p = 1.0, .seed = seed}, logits), 0);
    EXPECT_EQ(sample_once({.temperature = 1.1e-5, .seed = seed}, {0.0F, 1.0F}), 1);
  }
}

TEST(Sampler, PenaltiesAreTheirFormulas) {
  // prompt: 0 1; answer: 2 2 1
  const std::vector<int32_t> tokens = {0, 1, 2, 2, 1};
  const TokenHistory history{.tokens = tokens, .n_prompt = 2};
  // Each id's score after the penalties is found by the largest rival that it still beats: the
  // rival is id 4, and greedy prefers the lower id among equals.
  const auto score_is = [&](const SamplingOptions& options, int32_t id, float logit, float score) {
    std::vector<float> logits(5, -kInf);
    logits[static_cast<size_t>(id)] = logit;
    logits[4] = score - 1e-3F;
    EXPECT_EQ(sample_once(options, logits, history), id) << "less than " << score;
    logits[4] = score + 1e-3F;
    EXPECT_EQ(sample_once(options, logits, history), 4) << "more than " << score;
  };
  const SamplingOptions repetition{.temperature = 0.0, .repetition_penalty = 2.0};
  score_is(repetition, 0, 3.0F, 1.5F);    // in the prompt
  score_is(repetition, 2, -3.0F, -6.0F);  // negative: multiplied
  score_is(repetition, 3, 3.0F, 3.0F);    // never seen
  const SamplingOptions presence{.temperature = 0.0, .presence_penalty = 0.5};
  score_is(presence, 0, 3.0F, 3.0F);  // only in the prompt
  score_is(presence, 1, 3.0F, 2.5F);
  score_is(presence, 2, 3.0F, 2.5F);  // twice counts once
  const SamplingOptions frequency{.temperature = 0.0, .frequency_penalty = 0.5};
  score_is(frequency, 1, 3.0F, 2.5F);
  score_is(frequency, 2, 3.0F, 2.0F);
  score_is(frequency, 0, 3.0F, 3.0F);
  const SamplingOptions all{.temperature = 0.0,
                            .repetition_penalty = 2.0,
                            .presence_penalty = 0.25,
                            .frequency_penalty = -0.5};
  score_is(all, 2, 3.0F, 1.5F - 0.25F + 1.0F);
}

TEST(Sampler, PenaltiesFollowAGrowingHistory) {
  Sampler sampler({.temperature = 0.0, .frequency_penalty = 1.0});
  std::vector<int32_t> tokens = {0};
  std::vector<int32_t> answer;
  for (int i = 0; i < 6; ++i) {
    std::vector<float> logits = {0.0F, 2.5F, 1.9F};
    answer.push_back(sampler.sample(logits, {.tokens = tokens, .n_prompt = 1}).value().id);
    tokens.push_back(answer.back());
  }
  // 2.5 1.9 -> 1.5 1.9 -> 1.5 0.9 -> 0.5 0.9 -> 0.5 -0.1 -> -0.5 -0.1, and id 0 stays at 0.
  EXPECT_EQ(answer, (std::vector<int32_t>{1, 2, 1, 2, 1, 0}));
}

TEST(Sampler, SameSeedSameTokensWhateverCameBefore) {
  const std::vector<float> logits = random_logits(/*seed=*/3, 100);
  const std::vector<int32_t> tokens(20, 5);
  const auto at = [&](Sampler& sampler, size_t n) {
    std::vector<float> scratch = logits;
    return sampler.sample(scratch, {.tokens = std::span(tokens).first(n), .n_prompt = 4})
        .value()
        .id;
  };
  Sampler steady({.seed = 9});
  std::set<int32_t> distinct;
  for (size_t n = 4; n < 20; ++n) {
    Sampler fresh({.seed = 9});  // as after a preemption, or in another batch
    const int32_t token = at(steady, n);
    EXPECT_EQ(token, at(fresh, n)) << n;
    distinct.insert(token);
  }
  EXPECT_GT(distinct.size(), 3U) << "every position drew the same number";
}

// A window moves over the prompt and the answer, and over more than it holds at once.
TEST(Sampler, ThePenaltyWindowForgets) {
  const std::vector<int32_t> tokens = {0, 0, 1, 2, 1, 3, 3, 4};
  Sampler steady({.temperature = 0.0, .frequency_penalty = 1.0, .penalty_window = 3});
  const auto penalized = [&](size_t n) {
    std::vector<float> logits(5, 0.0F);
    EXPECT_TRUE(steady.sample(logits, {.tokens = std::span(tokens).first(n), .n_prompt = 1}));
    return logits;
  };
  using Logits = std::vector<float>;
  EXPECT_EQ(penalized(2), (Logits{-1, 0, 0, 0, 0}));  // the first 0 is the prompt's
  EXPECT_EQ(penalized(3), (Logits{-1, -1, 0, 0, 0}));
  EXPECT_EQ(penalized(5), (Logits{0, -2, -1, 0, 0}));
  EXPECT_EQ(penalized(8), (Logits{0, 0, 0, -2, -1}));
}

TEST(Sampler, BiasedAndBannedTokens) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F};
  EXPECT_EQ(sample_once({.temperature = 0.0, .logit_bias = {{0, 2.5}}}, logits), 0);
  EXPECT_EQ(sample_once({.temperature = 0.0, .logit_bias = {{1, -100.0}}}, logits), 2);
  EXPECT_EQ(sample_once({.temperature = 0.0, .banned_ids = {1}}, logits), 2);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(sample_once({.temperature = 2.0, .seed = seed, .banned_ids = {1, 2}}, logits), 0);
  }
}

TEST(Sampler, TheAnswerBeginsWithTheForcedIds) {
  Sampler sampler({.temperature = 0.0, .forced_ids = {2, 0}, .n_top_logprobs = 1});
  std::vector<int32_t> tokens = {1, 1};
  for (int i = 0; i < 3; ++i) {
    std::vector<float> logits = {1.0F, 3.0F, -kInf};
    const SampledToken token = sampler.sample(logits, {.tokens = tokens, .n_prompt = 2}).value();
    EXPECT_EQ(token.top.front().id, 1);
    EXPECT_TRUE(i != 0 || token.logprob == kLeastLogprob);
    tokens.push_back(token.id);
  }
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, 1, 2, 0, 1}));
}

TEST(Sampler, NoEndBeforeMinTokens) {
  Sampler sampler({.temperature = 0.0, .min_tokens = 2});
  const std::vector<int32_t> end_ids = {1, 2, 1000};  // one is beyond the vocabulary
  const std::vector<int32_t> tokens = {0, 0, 0};
  for (size_t n = 1; n <= 3; ++n) {
    std::vector<float> logits = {1.0F, 3.0F, 2.0F};
    const TokenHistory history{.tokens = std::span(tokens).first(n), .n_prompt = 1};
    EXPECT_EQ(sampler.sample(logits, history, end_ids).value().id, n <= 2 ? 0 : 1) << n;
  }
}

// Allows the multiples of `step_` between those above the last token and `end_`.
class EveryNth : public TokenMask {
 public:
  EveryNth(int32_t step, int32_t end, size_t n_words) : step_(step), end_(end), words_(n_words) {}
  Result<std::span<const uint64_t>> allowed() override {
    if (fails_) return fail(ErrorKind::kUnsupported, "no rule for this");
    std::ranges::fill(words_, 0);
    for (int32_t id = last_ + step_; id < end_; id += step_) {
      words_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    }
    return words_;
  }
  Result<void> accept(int32_t id) override {
    last_ = id;
    return {};
  }
  void break_down() { fails_ = true; }

 private:
  int32_t step_;
  int32_t end_;
  int32_t last_ = 0;
  bool fails_ = false;
  std::vector<uint64_t> words_;
};

TEST(Sampler, OnlyWhatTheMaskAllowsComes) {
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 0.0}, SamplingOptions{}, SamplingOptions{.top_k = 5},
        SamplingOptions{.top_p = 0.9}, SamplingOptions{.typical_p = 0.5},
        SamplingOptions{.logit_bias = {{1, 100.0}}}}) {
    const auto mask = std::make_shared<EveryNth>(/*step=*/7, /*end=*/128, /*n_words=*/2);
    Sampler sampler(options, mask);
    int32_t last = 0;
    for (uint32_t i = 0; last < 126; ++i) {
      std::vector<float> logits = random_logits(i, 300);
      logits[299] = 50.0F;  // the mask has no word for it
      const int32_t id = sampler.sample(logits, {}).value().id;
      ASSERT_GT(id, last);
      ASSERT_EQ(id % 7, 0);
      last = id;
    }
    std::vector<float> logits = random_logits(0, 300);
    const auto over = sampler.sample(logits, {});
    ASSERT_FALSE(over) << "nothing is allowed any more";
    EXPECT_EQ(over.error().kind, ErrorKind::kInvalidArgument);
    mask->break_down();
    const auto broken = sampler.sample(logits, {});
    ASSERT_FALSE(broken);
    EXPECT_EQ(broken.error().message, "no rule for this");
  }
}

TEST(Sampler, AMaskAcceptsForcedTokensOrEndsTheRequest) {
  std::vector<float> logits = random_logits(1, 100);
  Sampler good({.forced_ids = {14}}, std::make_shared<EveryNth>(7, 100, 2));
  EXPECT_EQ(good.sample(logits, {}).value().id, 14);
  Sampler bad({.forced_ids = {15}}, std::make_shared<EveryNth>(7, 100, 2));
  const auto refused = bad.sample(logits, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("id 15"), std::string::npos);
}

TEST(Sampler, NothingButBannedTokensIsAnError) {
  for (const double temperature : {0.0, 1.0}) {
    const auto banned =
        sample_once({.temperature = temperature, .banned_ids = {0, 1}}, {1.0F, 2.0F, -kInf});
    ASSERT_FALSE(banned);
    EXPECT_EQ(banned.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(banned.error().message.find("banned"), std::string::npos);
  }
  // A fault of the model's is no fault of the bans'.
  const auto broken = sample_once({.banned_ids = {0}}, {1.0F, kNan, 2.0F});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().kind, ErrorKind::kInternal);
}

// BC-63c
TEST(Sampler, BrokenLogitsAreAnErrorThatNamesTheToken) {
  for (const double temperature : {0.0, 1.0}) {
    for (const double penalty : {1.0, 1.5}) {
      const SamplingOptions options{.temperature = temperature, .repetition_penalty = penalty};
      for (const auto& [logits, named] :
           {std::pair{std::vector<float>{1.0F, kNan, 2.0F}, "id 1"},
            std::pair{std::vector<float>{1.0F, 2.0F, kInf}, "id 2"},
            std::pair{std::vector<float>{-kInf, -kInf, -kInf}, "-inf"}}) {
        const auto token = sample_once(options, logits);
        ASSERT_FALSE(token);
        EXPECT_EQ(token.error().kind, ErrorKind::kInternal);
        EXPECT_NE(token.error().message.find(named), std::string::npos) << token.error().message;
      }
    }
  }
}

TEST(Sampler, AnOptionOutOfRangeIsNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<SamplingOptions, std::string> wrong[] = {
      {{.temperature = -1.0}, "temperature"},
      {{.temperature = 2.1}, "temperature"},
      {{.temperature = nan}, "temperature"},
      {{.top_k = -2}, "top_k"},
      {{.top_p = 1.5}, "top_p"},
      {{.min_p = -0.1}, "min_p"},
      {{.repetition_penalty = 0.0}, "repetition_penalty"},
      {{.presence_penalty = 2.5}, "presence_penalty"},
      {{.frequency_penalty = -2.5}, "frequency_penalty"},
      {{.frequency_penalty = nan}, "frequency_penalty"},
      {{.typical_p = 1.1}, "typical_p"},
      {{.typical_p = nan}, "typical_p"},
      {{.penalty_window = -1}, "penalty_window"},
      {{.logit_bias = {{5, 100.5}}}, "logit_bias"},
      {{.logit_bias = {{5, nan}}}, "logit_bias"},
      {{.logit_bias = {{-1, 1.0}}}, "logit_bias"},
      {{.logit_bias = {{300, 1.0}}}, "logit_bias"},
      {{.banned_ids = {0, 300}}, "banned_token_ids"},
      {{.banned_ids = {-1}}, "banned_token_ids"},
      {{.forced_ids = {300}}, "forced_token_ids"},
      {{.banned_ids = {7}, .forced_ids = {1, 7}}, "forced_token_ids"},
      {{.min_tokens = -1}, "min_tokens"},
      {{.n_top_logprobs = -1}, "top_logprobs"},
      {{.n_top_logprobs = 21}, "top_logprobs"},
  };
  for (const auto& [options, name] : wrong) {
    const auto valid = validate(options, /*vocab_size=*/300);
    ASSERT_FALSE(valid) << name;
    EXPECT_EQ(valid.error().param, name);
    EXPECT_EQ(valid.error().kind, ErrorKind::kInvalidArgument);
  }
  EXPECT_TRUE(validate({}));
  EXPECT_TRUE(validate({.logit_bias = {{300, 1.0}}}));  // an unknown vocabulary
  EXPECT_TRUE(validate({.typical_p = 0.0,
                        .penalty_window = 1'000'000'000,
                        .logit_bias = {{0, -100.0}, {299, 100.0}},
                        .banned_ids = {0, 299},
                        .forced_ids = {1, 298},
                        .n_top_logprobs = 20},
                       300));
  EXPECT_TRUE(validate({.temperature = 2.0, .top_k = 1'000'000'000, .top_p = 0.0, .min_p = 1.0}));
}

}  // namespace
}  // namespace penstock
