#include "kernels/logits/logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/test_numbers_test.h"

namespace penstock {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Around the sizes of registers, columns and stripes, and a vocabulary.
constexpr size_t kSizes[] = {1, 7, 15, 16, 17, 40, 511, 512, 513, 1040, 49'152, 50'257};

std::vector<float> maxima_of(Isa isa, const std::vector<float>& logits) {
  std::vector<float> maxima(n_stripes(logits.size()) * kColumns, kNan);
  EXPECT_TRUE(column_maxima(isa, logits, maxima));
  return maxima;
}

TEST(Logits, ColumnMaximaOfTheReferenceAreTheDefinition) {
  auto logits = random_floats(1040, 1, 5.0F);
  for (size_t i = 512; i < 1024; i += 16) logits[i + 3] = -kInf;
  const auto maxima = maxima_of(Isa::kScalar, logits);
  ASSERT_EQ(maxima.size(), 48U);
  for (size_t s = 0; s < 3; ++s) {
    for (size_t c = 0; c < 16; ++c) {
      float expected = -kInf;
      for (size_t i = 512 * s + c; i < std::min<size_t>(1040, 512 * (s + 1)); i += 16) {
        expected = std::max(expected, logits[i]);
      }
      EXPECT_EQ(maxima[16 * s + c], expected) << s << " " << c;
    }
  }
  EXPECT_EQ(maxima[16 + 3], -kInf);
}

TEST(Logits, EveryIsaGivesTheReferencesBits) {
  for (const size_t n : kSizes) {
    auto logits = random_floats(static_cast<int64_t>(n), 3, 20.0F);
    logits[n / 2] = -kInf;
    const float largest = *std::ranges::max_element(logits);
    const auto expected = maxima_of(Isa::kScalar, logits);
    for (const Isa isa : supported_isas()) {
      EXPECT_TRUE(same_bits(maxima_of(isa, logits), expected)) << to_string(isa) << " " << n;
    }
    for (size_t begin = 0; begin < n; begin += kStripe) {
      const auto stripe = std::span(logits).subspan(begin, std::min(kStripe, n - begin));
      for (const float inverse_temperature : {1.0F, 0.5F, 1e5F}) {
        const Softening by{largest == -kInf ? 0.0F : largest, inverse_temperature};
        std::vector<float> weights(stripe.size(), kNan);
        const WeightSums sums = stripe_weights_ref(by, stripe, weights);
        for (const Isa isa : supported_isas()) {
          std::vector<float> found(stripe.size() + 1, 7.0F);  // one more, not to be touched
          const WeightSums found_sums =
              stripe_weights(isa, by, stripe, std::span(found).first(stripe.size()));
          EXPECT_EQ(found.back(), 7.0F);
          found.pop_back();
          EXPECT_TRUE(same_bits(found, weights)) << to_string(isa) << " " << n << " " << begin;
          EXPECT_EQ(found_sums.weight, sums.weight) << to_string(isa) << " " << n;
          EXPECT_EQ(found_sums.weighted_lead, sums.weighted_lead) << to_string(isa) << " " << n;
        }
      }
    }
  }
}

// Wherever it is: in a whole register, in the last columns, in the first stripe or a later one.
TEST(Logits, EveryIsaSeesAFault) {
  for (const size_t n : kSizes) {
    const auto sound = random_floats(static_cast<int64_t>(n), 4);
    for (const size_t place : {size_t{0}, n / 2, n - 1}) {
      for (const float fault : {kNan, -kNan, kInf}) {
        std::vector<float> logits = sound;
        logits[place] = fault;
        std::vector<float> maxima(n_stripes(n) * kColumns);
        for (const Isa isa : supported_isas()) {
          EXPECT_FALSE(column_maxima(isa, logits, maxima)) << to_string(isa) << " " << n;
        }
      }
    }
  }
}

// u = 2^-24. The lead rounds twice, an error of 2 u |x| in the exponent; exp is within 2 u. A sum
// of 512 adds 32 numbers and 4 levels.
TEST(Logits, WeightsAreTheFormula) {
  const auto logits = random_floats(512, 5, 4.0F);
  const float largest = *std::ranges::max_element(logits);
  std::vector<float> weights(512);
  const WeightSums sums = stripe_weights_ref({largest, 1.25F}, logits, weights);
  double sum = 0.0;
  double weighted = 0.0;
  for (size_t i = 0; i < 512; ++i) {
    const double x = (double{logits[i]} - largest) * 1.25;
    const double w = std::exp(x);
    EXPECT_NEAR(weights[i], w, std::ldexp(w * (3.0 + 2.0 * std::abs(x)), -24)) << i;
    sum += w;
    weighted += w * x;
  }
  EXPECT_NEAR(sums.weight, sum, std::ldexp(sum, -18));
  EXPECT_NEAR(sums.weighted_lead, weighted, std::ldexp(std::abs(weighted), -18));
}

TEST(Logits, FarLeadsWeighNothing) {
  const std::vector<float> logits = {0.0F, -86.0F, -88.0F, -kInf, -3e38F};
  for (const Isa isa : supported_isas()) {
    std::vector<float> weights(5);
    stripe_weights(isa, {0.0F, 1.0F}, logits, weights);
    EXPECT_GT(weights[1], 0.0F);
    EXPECT_EQ(std::vector(weights.begin() + 2, weights.end()), (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(stripe_weights(isa, {3e38F, 1e5F}, logits, weights).weight, 0.0F);
  }
}

}  // namespace
}  // namespace penstock
