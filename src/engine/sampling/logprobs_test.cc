#include "engine/sampling/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/sampling/sampler.h"

namespace penstock {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Probabilities 1/8, 1/2, 1/4, 1/8.
const std::vector<float> kEighths = {std::log(1.0F), std::log(4.0F), std::log(2.0F),
                                     std::log(1.0F)};

void expect_near(const TokenLogprob& found, int32_t id, double p) {
  EXPECT_EQ(found.id, id);
  EXPECT_NEAR(found.logprob, std::log(p), 1e-6);
}

TEST(Logprobs, AreTheLogarithmsOfTheProbabilitiesMostLikelyFirst) {
  const SampledToken token = with_logprobs(Isa::kScalar, kEighths, /*id=*/3, /*n_top=*/3).value();
  expect_near({token.id, token.logprob.value()}, 3, 0.125);
  ASSERT_EQ(token.top.size(), 3U);
  expect_near(token.top[0], 1, 0.5);
  expect_near(token.top[1], 2, 0.25);
  expect_near(token.top[2], 0, 0.125);  // of two equals the lower id
}

TEST(Logprobs, DoNotOverflow) {
  const std::vector<float> huge = {3e38F, 3e38F, -3e38F};
  const SampledToken token = with_logprobs(Isa::kScalar, huge, 0, 3).value();
  EXPECT_NEAR(token.logprob.value(), std::log(0.5), 1e-6);
  EXPECT_EQ(token.top[2], (TokenLogprob{2, kLeastLogprob}));
}

TEST(Sampler, LogprobsComeOnlyWhenAskedFor) {
  std::vector<float> logits = kEighths;
  const SampledToken bare = Sampler({.temperature = 0.0}).sample(logits, {}).value();
  EXPECT_EQ(bare, (SampledToken{.id = 1}));
  const SampledToken none =
      Sampler({.temperature = 0.0, .n_top_logprobs = 0}).sample(logits, {}).value();
  EXPECT_NEAR(none.logprob.value(), std::log(0.5), 1e-6);
  EXPECT_TRUE(none.top.empty());
}

// BC-55
TEST(Sampler, LogprobsAreTheModelsAndNeverInfinite) {
  const std::vector<int32_t> prompt = {1, 1};
  for (const SamplingOptions& options :
       {SamplingOptions{.top_k = 1, .repetition_penalty = 10.0, .n_top_logprobs = 20},
        SamplingOptions{.temperature = 0.1, .n_top_logprobs = 20},
        SamplingOptions{.temperature = 0.0, .n_top_logprobs = 20},
        SamplingOptions{.top_p = 0.0, .n_top_logprobs = 20}}) {
    std::vector<float> logits = kEighths;
    logits.push_back(-kInf);  // as of a row that only pads the vocabulary
    const SampledToken token =
        Sampler(options).sample(logits, {.tokens = prompt, .n_prompt = 2}).value();
    ASSERT_EQ(token.top.size(), 5U) << "the vocabulary has no more";
    expect_near(token.top[0], 1, 0.5);
    expect_near(token.top[1], 2, 0.25);
    EXPECT_EQ(token.top[4], (TokenLogprob{4, kLeastLogprob}));
    const double expected = token.id == 1 ? 0.5 : token.id == 2 ? 0.25 : 0.125;
    EXPECT_NEAR(token.logprob.value(), std::log(expected), 1e-6);
  }
}

}  // namespace
}  // namespace penstock
