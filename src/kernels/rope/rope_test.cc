#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>

#include "kernels/golden_json_test.h"
#include "kernels/test_numbers_test.h"

namespace penstock {
namespace {

const double kU = std::ldexp(1.0, -24);

// transformers works in float32: it rounds the exponent 2j/d, which moves theta^(2j/d) by up to
// ln(1e6) = 14 roundings, and rounds the power, the products and the quotients after it.
const double kTableError = 22 * kU;

RopeSpec spec_of(const Json& json) {
  static const std::map<std::string, RopeType> kTypes = {
      {"default", RopeType::kDefault}, {"linear", RopeType::kLinear},
      {"dynamic", RopeType::kDynamic}, {"yarn", RopeType::kYarn},
      {"llama3", RopeType::kLlama3},   {"longrope", RopeType::kLongrope}};
  RopeSpec spec;
  spec.type = kTypes.at(json["type"]);
  spec.rotary_dims = json["rotary_dims"];
  spec.theta = json.value("theta", spec.theta);
  spec.factor = json.value("factor", spec.factor);
  spec.original_context = json.value("original_context", spec.original_context);
  spec.low_freq_factor = json.value("low_freq_factor", spec.low_freq_factor);
  spec.high_freq_factor = json.value("high_freq_factor", spec.high_freq_factor);
  spec.beta_fast = json.value("beta_fast", spec.beta_fast);
  spec.beta_slow = json.value("beta_slow", spec.beta_slow);
  spec.truncate = json.value("truncate", spec.truncate);
  spec.mscale = json.value("mscale", spec.mscale);
  spec.mscale_all_dim = json.value("mscale_all_dim", spec.mscale_all_dim);
  spec.short_factor = json.value("short_factor", spec.short_factor);
  spec.long_factor = json.value("long_factor", spec.long_factor);
  if (json.contains("attention_factor")) spec.attention_factor = json["attention_factor"];
  return spec;
}

RopeTable table_of(const Json& entry) {
  return rope_table(spec_of(entry["spec"]), entry["context_length"], entry["length"]);
}

TEST(RopeTable, EqualsTransformersForEveryType) {
  const Json golden = golden_json("rope.json");
  ASSERT_GE(golden["cases"].size(), 15u);
  for (const Json& entry : golden["cases"]) {
    const RopeTable table = table_of(entry);
    const std::vector<double> expected = entry["frequencies"];
    ASSERT_EQ(table.frequencies.size(), expected.size()) << entry["name"];
    for (size_t j = 0; j < expected.size(); ++j) {
      EXPECT_NEAR(table.frequencies[j], expected[j], kTableError * expected[j])
          << entry["name"] << " pair " << j;
    }
    EXPECT_NEAR(table.attention_factor, entry["attention_factor"], 1e-12) << entry["name"];
  }
}

// An angle inherits the table's error and one rounding, times itself; then four roundings more.
TEST(RopeRotate, EqualsTransformersInBothLayouts) {
  int n_rotations = 0;
  const Json golden = golden_json("rope.json");
  for (const Json& entry : golden["cases"]) {
    if (!entry.contains("rotation")) continue;
    const Json& rotation = entry["rotation"];
    const RopeTable table = table_of(entry);
    const auto n_pairs = table.frequencies.size();
    std::vector<float> cos(n_pairs), sin(n_pairs);
    for (size_t p = 0; p < rotation["positions"].size(); ++p) {
      const int64_t position = rotation["positions"][p];
      rope_angles(table, position, cos, sin);
      for (const auto& [layout, pairs] : {std::pair{"halves", RopePairs::kHalves},
                                          std::pair{"interleaved", RopePairs::kInterleaved}}) {
        std::vector<float> head = rotation["x"][p];
        const std::vector<float> expected = rotation[layout][p];
        rope_rotate(pairs, cos, sin, dense_rows(head.data(), 1, std::ssize(head)));
        const double angle_error = static_cast<double>(position) * (kTableError + kU) + 4 * kU;
        for (size_t i = 0; i < head.size(); ++i) {
          const bool is_turned = i < 2 * n_pairs;
          EXPECT_NEAR(head[i], expected[i], is_turned ? 8 * 1.5 * angle_error : 0.0)
              << entry["name"] << " " << layout << " position " << position << " element " << i;
        }
        ++n_rotations;
      }
    }
  }
  EXPECT_EQ(n_rotations, 24);
}

// GGUF stores llama 3's scaling as divisors instead: 1, F, or between (transformers knows none).
TEST(RopeTable, DivisorsGiveTheLlama3Table) {
  RopeSpec llama3;
  llama3.type = RopeType::kLlama3;
  llama3.rotary_dims = 128;
  llama3.theta = 5e5;
  llama3.factor = 8;
  llama3.original_context = 8192;
  RopeSpec divided;
  divided.rotary_dims = 128;
  divided.theta = 5e5;
  for (int j = 0; j < 64; ++j) {
    const double wave = 2 * std::numbers::pi / std::pow(5e5, -2.0 * j / 128);
    const double s = (8192 / wave - 1) / 3;
    const double divisor = wave < 8192.0 / 4 ? 1 : wave > 8192 ? 8 : 1 / ((1 - s) / 8 + s);
    divided.freq_divisors.push_back(static_cast<float>(divisor));
  }
  const RopeTable a = rope_table(llama3, 131072, 100);
  const RopeTable b = rope_table(divided, 131072, 100);
  for (size_t j = 0; j < 64; ++j) {
    EXPECT_NEAR(a.frequencies[j], b.frequencies[j], kU * a.frequencies[j]);
  }
}

TEST(RopeTable, WithoutAnOriginalContextItIsTheContextLength) {
  RopeSpec spec;
  spec.type = RopeType::kYarn;
  spec.rotary_dims = 64;
  spec.factor = 2;
  const RopeTable implied = rope_table(spec, 4096, 100);
  spec.original_context = 4096;
  EXPECT_EQ(implied.frequencies, rope_table(spec, 4096, 100).frequencies);
}

// The table of a request is fixed by its final length, so cached keys stay right as it grows.
TEST(RopeTable, OnlyDynamicAndLongropeDependOnTheLength) {
  const Json golden = golden_json("rope.json");
  for (const Json& entry : golden["cases"]) {
    const RopeSpec spec = spec_of(entry["spec"]);
    const int64_t context = entry["context_length"];
    const bool depends = spec.type == RopeType::kDynamic || spec.type == RopeType::kLongrope;
    EXPECT_EQ(rope_table(spec, context, 1).frequencies !=
                  rope_table(spec, context, 4 * context).frequencies,
              depends)
        << entry["name"];
  }
}

TEST(RopeRotate, KeepsWhatIsBeyondTheRotaryPart) {
  std::vector<float> heads = random_floats(3 * 10, 1);
  const std::vector<float> before = heads;
  const std::vector<float> cos = {0.0F, 0.0F};
  const std::vector<float> sin = {1.0F, 1.0F};
  rope_rotate(RopePairs::kHalves, cos, sin, {heads.data(), 3, 8, 10});
  for (size_t h = 0; h < 3; ++h) {
    for (size_t i = 0; i < 10; ++i) {
      const size_t at = h * 10 + i;
      const float turned = i < 2 ? -before[at + 2] : i < 4 ? before[at - 2] : before[at];
      EXPECT_EQ(heads[at], turned);
    }
  }
}

}  // namespace
}  // namespace penstock
