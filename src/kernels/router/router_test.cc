#include "kernels/router/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "kernels/golden_json_test.h"
#include "kernels/test_numbers_test.h"

namespace penstock {
namespace {

using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<ExpertChoice> choose(const RouterSpec& spec, const std::vector<float>& logits,
                                 size_t top_k, const std::vector<float>& bias = {}) {
  std::vector<ExpertChoice> chosen(top_k);
  route(spec, logits, bias, chosen);
  return chosen;
}

std::vector<int32_t> ids(const std::vector<ExpertChoice>& chosen) {
  std::vector<int32_t> experts;
  for (const ExpertChoice& each : chosen) experts.push_back(each.expert);
  return experts;
}

// Weights carry exp's ulp and transformers' own, the rounding of the score, of its own sum of
// at most 32 terms and of two products: below 64 u relatively, u = 2^-24.
TEST(Router, ChoosesAndWeighsAsTransformers) {
  const double tolerance = 64 * std::ldexp(1.0, -24);
  int n_tokens = 0;
  const Json golden = golden_json("router.json");
  for (const Json& entry : golden["cases"]) {
    RouterSpec spec;
    spec.score =
        entry["spec"]["score"] == "softmax" ? RouterScore::kSoftmax : RouterScore::kSigmoid;
    spec.renormalize = entry["spec"]["renormalize"];
    spec.n_groups = entry["spec"].value("n_groups", 1);
    spec.top_groups = entry["spec"].value("top_groups", 1);
    spec.scale = entry["spec"].value("scale", 1.0);
    spec.has_bias = !entry["bias"].empty();
    for (const Json& token : entry["tokens"]) {
      const std::vector<double> weights = token["weights"];
      const auto chosen = choose(spec, token["logits"], weights.size(), entry["bias"]);
      EXPECT_EQ(ids(chosen), token["experts"].get<std::vector<int32_t>>()) << entry["name"];
      for (size_t i = 0; i < weights.size(); ++i) {
        EXPECT_NEAR(chosen[i].weight, weights[i], tolerance * weights[i]) << entry["name"];
      }
      ++n_tokens;
    }
  }
  EXPECT_EQ(n_tokens, 72);
}

TEST(Router, TiesGoToTheLowerId) {
  const std::vector<float> equal(6, 0.5F);
  EXPECT_THAT(choose({}, equal, 2), ElementsAre(ExpertChoice{0, 0.5F}, ExpertChoice{1, 0.5F}));
  RouterSpec grouped = {.score = RouterScore::kSigmoid, .n_groups = 3, .top_groups = 1};
  EXPECT_THAT(ids(choose(grouped, equal, 2)), ElementsAre(0, 1));
}

TEST(Router, TheBiasSteersButDoesNotWeigh) {
  const RouterSpec spec = {.score = RouterScore::kSigmoid, .renormalize = false};
  const auto chosen = choose(spec, {2.0F, 1.0F, 0.0F}, 1, {0.0F, 0.0F, 5.0F});
  EXPECT_THAT(chosen, ElementsAre(ExpertChoice{2, 0.5F}));
}

// Group 0 has the best single expert, group 1 the best two.
TEST(Router, GroupsAreJudgedByTheirTwoBest) {
  const RouterSpec spec = {.score = RouterScore::kSigmoid, .n_groups = 2, .top_groups = 1};
  EXPECT_THAT(ids(choose(spec, {3.0F, -3.0F, -3.0F, 2.0F, 2.5F, -9.0F}, 2)), ElementsAre(4, 3));
}

TEST(Router, OneGroupOfOneExpertEach) {
  const RouterSpec spec = {.score = RouterScore::kSigmoid, .n_groups = 4, .top_groups = 2};
  EXPECT_THAT(ids(choose(spec, {0.0F, 3.0F, 1.0F, 2.0F}, 2)), ElementsAre(1, 3));
}

TEST(Router, AllExpertsMayBeChosenAndWeightsSumToTheScale) {
  const auto logits = random_floats(16, 5);
  const auto chosen = choose({.scale = 2.5}, logits, 16);
  double sum = 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    sum += chosen[i].weight;
    EXPECT_GE(chosen[i > 0 ? i - 1 : 0].weight, chosen[i].weight);
  }
  EXPECT_NEAR(sum, 2.5, 16 * 2.5 * std::ldexp(1.0, -24));
}

TEST(Router, FarLogitsStaySane) {
  EXPECT_THAT(choose({}, {-1000.0F, 1000.0F}, 2),
              ElementsAre(ExpertChoice{1, 1.0F}, ExpertChoice{0, 0.0F}));
}

TEST(Router, WhateverTheLogitsTheIdsAreValidAndDistinct) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    for (const int n_groups : {1, 4}) {
      const RouterSpec spec = {.score = score, .n_groups = n_groups, .top_groups = 1};
      for (const float odd : {kNan, kInf, -kInf}) {
        for (const size_t n_odd : {size_t{1}, size_t{5}, size_t{8}}) {
          auto logits = random_floats(8, 6);
          std::fill_n(logits.begin(), n_odd, odd);
          const auto experts = ids(choose(spec, logits, 3));
          EXPECT_EQ(std::set(experts.begin(), experts.end()).size(), 3u);
          for (const int32_t expert : experts) EXPECT_TRUE(expert >= 0 && expert < 8);
        }
      }
    }
  }
  const auto chosen = choose({.score = RouterScore::kSigmoid}, {kNan, 1.0F, kNan, 0.0F}, 2);
  EXPECT_THAT(ids(chosen), ElementsAre(1, 3));
}

}  // namespace
}  // namespace penstock
