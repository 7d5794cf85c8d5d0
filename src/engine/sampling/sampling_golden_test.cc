// The sampler against distributions computed from the definitions: tests/golden/make_sampling.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "cpu/isa.h"
#include "engine/sampling/cuts.h"
#include "engine/sampling/sampler.h"

namespace penstock {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Case {
  std::string name;
  SamplingOptions options = {};
  std::vector<float> logits = {};
  std::vector<int32_t> tokens = {};
  size_t n_prompt = 0;
  std::vector<int32_t> end_ids = {};
  std::vector<float> edited = {};           // logits after penalties, biases and bans
  std::map<int32_t, double> expected = {};  // probabilities

  TokenHistory history() const { return {.tokens = tokens, .n_prompt = n_prompt}; }
};

SamplingOptions options_of(const Json& json) {
  SamplingOptions options;
  options.temperature = json.value("temperature", options.temperature);
  options.top_k = json.value("top_k", options.top_k);
  options.top_p = json.value("top_p", options.top_p);
  options.min_p = json.value("min_p", options.min_p);
  options.typical_p = json.value("typical_p", options.typical_p);
  options.repetition_penalty = json.value("repetition_penalty", options.repetition_penalty);
  options.presence_penalty = json.value("presence_penalty", options.presence_penalty);
  options.frequency_penalty = json.value("frequency_penalty", options.frequency_penalty);
  options.penalty_window = json.value("penalty_window", options.penalty_window);
  options.banned_ids = json.value("banned_token_ids", options.banned_ids);
  options.min_tokens = json.value("min_tokens", options.min_tokens);
  if (json.contains("logit_bias")) {
    for (const auto& [id, bias] : json["logit_bias"].items()) {
      options.logit_bias[std::stoi(id)] = bias.get<double>();
    }
  }
  return options;
}

float logit_of(const Json& json) { return json.is_null() ? -kInf : json.get<float>(); }

std::vector<Case> read_cases() {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/golden/sampling.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Json golden = parse_json(text).value();
  std::vector<Case> cases;
  for (const Json& json : golden["cases"]) {
    const std::string row = json["row"];
    Case c{.name = row + " " + json["options"].dump(),
           .options = options_of(json["options"]),
           .tokens = json["tokens"],
           .n_prompt = json["n_prompt"],
           .end_ids = json["end_ids"]};
    for (const Json& z : golden["rows"][row]) c.logits.push_back(logit_of(z));
    c.edited = c.logits;
    for (const auto& [id, z] : json["edited"].items()) {
      c.edited[static_cast<size_t>(std::stoi(id))] = logit_of(z);
    }
    for (size_t i = 0; i < json["ids"].size(); ++i) c.expected[json["ids"][i]] = json["p"][i];
    cases.push_back(std::move(c));
  }
  return cases;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = read_cases();
  return all;
}

std::map<int32_t, double> probabilities(const std::vector<Candidate>& candidates) {
  double sum = 0.0;
  for (const Candidate& candidate : candidates) sum += double{candidate.weight};
  std::map<int32_t, double> p;
  for (const Candidate& candidate : candidates) p[candidate.id] = candidate.weight / sum;
  return p;
}

TEST(SamplingGolden, EditedLogitsAreTheFormulas) {
  for (const Case& c : cases()) {
    std::vector<float> logits = c.logits;
    ASSERT_TRUE(Sampler(c.options).sample(logits, c.history(), c.end_ids)) << c.name;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (c.edited[i] == -kInf) {
        EXPECT_EQ(logits[i], -kInf) << c.name << " id " << i;
      } else {
        EXPECT_NEAR(logits[i], c.edited[i], 1e-6 * std::max(1.0F, std::abs(c.edited[i])))
            << c.name << " id " << i;
      }
    }
  }
}

TEST(SamplingGolden, TheRightTokensSurviveWithTheRightProbabilities) {
  for (const Case& c : cases()) {
    for (const Isa isa : supported_isas()) {
      const LogitRow row = LogitRow::read(isa, c.edited).value();
      const Softmax softmax(isa, row, c.options.temperature);
      const bool all = !cuts(c.options, c.edited.size());
      const auto found =
          probabilities(all ? softmax.candidates_from(-kInf) : cut(c.options, row, softmax));
      EXPECT_EQ(found.size(), c.expected.size()) << c.name;
      for (const auto& [id, p] : c.expected) {
        ASSERT_TRUE(found.contains(id)) << c.name << " lost id " << id;
        EXPECT_NEAR(found.at(id), p, 1e-5 * p) << c.name << " id " << id;
      }
    }
  }
}

// 99.99 % of chi-square statistics of n - 1 degrees of freedom are lower, by Wilson and Hilferty.
double chi_square_limit(size_t n_degrees) {
  const auto n = static_cast<double>(n_degrees);
  return n * std::pow(1.0 - 2.0 / (9.0 * n) + 3.719 * std::sqrt(2.0 / (9.0 * n)), 3.0);
}

TEST(SamplingGolden, DrawsFollowTheProbabilities) {
  constexpr int kDraws = 4000;
  for (const Case& c : cases()) {
    std::map<int32_t, int> counts;
    for (int i = 0; i < kDraws; ++i) {
      SamplingOptions options = c.options;
      options.seed = static_cast<uint64_t>(i);
      std::vector<float> logits = c.logits;
      ++counts[Sampler(options).sample(logits, c.history(), c.end_ids).value().id];
    }
    // Tokens with fewer than five draws expected are taken together, as the test asks.
    double statistic = 0.0;
    double rest_expected = 0.0;
    double rest_found = 0.0;
    size_t n_classes = 0;
    const auto add = [&](double found, double expected) {
      statistic += (found - expected) * (found - expected) / expected;
      ++n_classes;
    };
    for (const auto& [id, n] : counts) EXPECT_TRUE(c.expected.contains(id)) << c.name << " " << id;
    for (const auto& [id, p] : c.expected) {
      const double found = counts.contains(id) ? counts.at(id) : 0;
      if (p * kDraws >= 5.0) {
        add(found, p * kDraws);
      } else {
        rest_expected += p * kDraws;
        rest_found += found;
      }
    }
    if (rest_expected >= 5.0) add(rest_found, rest_expected);
    if (n_classes > 1) {
      EXPECT_LT(statistic, chi_square_limit(n_classes - 1)) << c.name;
    }
  }
}

TEST(SamplingGolden, EveryIsaDrawsTheSameTokens) {
  const auto isas = supported_isas();
  for (const Case& c : cases()) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      SamplingOptions options = c.options;
      options.seed = seed;
      options.n_top_logprobs = 3;
      std::vector<SampledToken> tokens;
      for (const Isa isa : isas) {
        std::vector<float> logits = c.logits;
        tokens.push_back(
            Sampler(options, nullptr, isa).sample(logits, c.history(), c.end_ids).value());
        EXPECT_EQ(tokens.back(), tokens.front()) << to_string(isa) << " " << c.name;
      }
    }
  }
}

}  // namespace
}  // namespace penstock
