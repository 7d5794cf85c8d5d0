#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
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

// The probability of each token, by the plain reading of the header's definitions: whole sorts,
// whole sums, every step on its own. Ids that are cut are absent.
std::map<int32_t, double> plain_distribution(const SamplingOptions& options,
                                             const std::vector<float>& logits) {
  std::vector<std::pair<double, int32_t>> kept;
  for (size_t i = 0; i < logits.size(); ++i) {
    kept.emplace_back(std::exp(static_cast<double>(logits[i]) / options.temperature),
                      static_cast<int32_t>(i));
  }
  std::ranges::stable_sort(kept, [](const auto& a, const auto& b) { return a.first > b.first; });
  const auto normalize = [&] {
    double total = 0.0;
    for (const auto& [p, id] : kept) total += p;
    for (auto& [p, id] : kept) p /= total;
  };
  normalize();
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < kept.size()) {
    kept.resize(static_cast<size_t>(options.top_k));
  }
  normalize();
  double held = 0.0;
  size_t n = 0;
  while (n < kept.size() && (n == 0 || held < options.top_p)) held += kept[n++].first;
  kept.resize(n);
  normalize();
  const double line = options.min_p * kept.front().first;
  std::erase_if(kept, [&](const auto& entry) { return entry.first < line; });
  normalize();
  std::map<int32_t, double> distribution;
  for (const auto& [p, id] : kept) distribution[id] = p;
  return distribution;
}

std::map<int32_t, int> draw_many(SamplingOptions options, const std::vector<float>& logits, int n) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) {
    options.seed = static_cast<uint64_t>(i);
    ++counts[sample_once(options, logits).value()];
  }
  return counts;
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

TEST(Sampler, DrawsFollowThePlainDefinition) {
  const SamplingOptions cases[] = {
      {},
      {.temperature = 0.5},
      {.temperature = 2.0, .top_k = 5},
      {.top_p = 0.9},
      {.temperature = 1.5, .top_p = 0.5},
      {.min_p = 0.1},
      {.temperature = 1.5, .top_k = 12, .top_p = 0.9, .min_p = 0.05},
      {.top_k = 1'000'000'000},
  };
  constexpr int kDraws = 20'000;
  const std::vector<float> logits = random_logits(/*seed=*/7, 40);
  for (const SamplingOptions& options : cases) {
    const auto expected = plain_distribution(options, logits);
    const auto counts = draw_many(options, logits, kDraws);
    for (const auto& [id, n] : counts) EXPECT_TRUE(expected.contains(id)) << "drew a cut id " << id;
    for (const auto& [id, p] : expected) {
      const double n = counts.contains(id) ? counts.at(id) : 0;
      // Five standard deviations of a binomial count, and one for rounding.
      EXPECT_NEAR(n, p * kDraws, 5.0 * std::sqrt(p * (1.0 - p) * kDraws) + 1.0) << "id " << id;
    }
  }
}

// The set of tokens that survive must be right where ordering works in growing prefixes: from a few
// of the tokens, where the logits are far apart, to hundreds, where they are close.
TEST(Sampler, CutsOfALargeVocabularyKeepExactlyThePlainSet) {
  constexpr int kDraws = 6'000;
  for (const float spread : {1.0F, 0.05F}) {
    std::vector<float> logits = random_logits(/*seed=*/11, 700);
    for (float& logit : logits) logit *= spread;
    for (const double top_p : {0.1, 0.5}) {
      const SamplingOptions options{.top_p = top_p};
      const auto expected = plain_distribution(options, logits);
      const auto counts = draw_many(options, logits, kDraws);
      for (const auto& [id, n] : counts)
        EXPECT_TRUE(expected.contains(id)) << top_p << " id " << id;
      for (const auto& [id, p] : expected) {
        if (p > 0.002) {  // missed with probability 0.998^6000 = 6e-6
          EXPECT_TRUE(counts.contains(id)) << top_p << " id " << id;
        }
      }
      EXPECT_TRUE(spread == 1.0F || top_p < 0.5 || expected.size() > 300) << "no test of many";
    }
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
      {{.n_top_logprobs = -1}, "top_logprobs"},
      {{.n_top_logprobs = 21}, "top_logprobs"},
  };
  for (const auto& [options, name] : wrong) {
    const auto valid = validate(options);
    ASSERT_FALSE(valid) << name;
    EXPECT_EQ(valid.error().param, name);
    EXPECT_EQ(valid.error().kind, ErrorKind::kInvalidArgument);
  }
  EXPECT_TRUE(validate({}));
  EXPECT_TRUE(validate({.temperature = 2.0, .top_k = 1'000'000'000, .top_p = 0.0, .min_p = 1.0}));
}

}  // namespace
}  // namespace penstock
