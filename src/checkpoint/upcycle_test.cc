#include "checkpoint/upcycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/pack.h"
#include "checkpoint/tiny_checkpoint_test.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

Json golden_draws() {
  const auto parsed = parse_json(read_file(PENSTOCK_SOURCE_DIR "/tests/golden/upcycle/draws.json"));
  return parsed ? *parsed : Json::object();
}

TEST(Upcycle, OrdersEqualThoseOfTheDocumentedGenerator) {
  const Json golden = golden_draws()["orders"];
  ASSERT_GE(golden.size(), 5U);
  for (const Json& draw : golden) {
    const auto orders = upcycle_orders({.n_experts = draw["n_experts"], .seed = draw["seed"]},
                                       draw["layer"], draw["n_blocks"]);
    ASSERT_TRUE(orders) << orders.error().text();
    EXPECT_EQ(*orders, draw["orders"].get<std::vector<BlockOrder>>()) << draw.dump();
  }
}

TEST(Upcycle, OrdersDifferAndAreNeverTheIdentity) {
  for (const int n_blocks : {3, 4, 5, 6}) {
    std::set<BlockOrder> seen;
    const int n_experts = n_blocks == 3 ? 5 : 23;
    if (n_blocks == 3 || n_blocks == 4) {  // every order there is
      const auto orders = upcycle_orders({.n_experts = n_experts, .seed = 3}, 0, n_blocks);
      ASSERT_TRUE(orders) << orders.error().text();
      EXPECT_FALSE(upcycle_orders({.n_experts = n_experts + 1, .seed = 3}, 0, n_blocks));
    }
    const auto orders = upcycle_orders({.n_experts = n_experts, .seed = 3}, 1, n_blocks);
    ASSERT_TRUE(orders);
    for (const BlockOrder& order : *orders) {
      EXPECT_TRUE(seen.insert(order).second) << "two experts have the same order";
      EXPECT_FALSE(std::ranges::is_sorted(order));
      BlockOrder sorted = order;
      std::ranges::sort(sorted);
      for (uint32_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], i);
    }
  }
  EXPECT_FALSE(upcycle_orders({.n_experts = 2}, 0, 1));
}

class UpcyclePack : public ::testing::Test {
 protected:
  Checkpoint source(const FormatOf& format_of, const ModelSpec& spec = tiny_dense_spec()) {
    return make_checkpoint(folder_.path() / "source", spec, format_of);
  }

  Result<Checkpoint> upcycle(const Checkpoint& checkpoint, std::optional<Format> format = {}) {
    PackOptions options{.output = folder_.path() / "out.pack",
                        .if_exists = IfExists::kReplace,
                        .experts_format = format,
                        .upcycle = options_};
    PENSTOCK_TRY(write_pack(checkpoint, options, {}, {}));
    return open_pack(options.output);
  }

  UpcycleOptions options_ = {.n_experts = 4, .top_k = 2, .seed = 11};
  TestFolder folder_;
};

using Values = std::vector<float>;

// Row i of the result is row rows[i] of `values`, or column j column cols[j].
Values reordered(const Values& values, int64_t n_rows, const BlockOrder* rows,
                 const BlockOrder* cols) {
  const size_t height = static_cast<size_t>(n_rows);
  const size_t width = values.size() / height;
  const auto from = [](size_t i, size_t n, const BlockOrder* order) {
    if (order == nullptr) return i;
    const size_t block = n / order->size();
    return (*order)[i / block] * block + i % block;
  };
  Values out(values.size());
  for (size_t r = 0; r < height; ++r) {
    for (size_t c = 0; c < width; ++c) {
      out[r * width + c] = values[from(r, height, rows) * width + from(c, width, cols)];
    }
  }
  return out;
}

// For each way of storing that moves differently: plain, ggml blocks, codes and scales apart, a
// scale for each row, a grid of scales (whose blocks are larger than 32).
TEST_F(UpcyclePack, ExpertsAreTheMlpInAnotherOrder) {
  for (const Format format : {Format::kBF16, Format::kQ4_1, Format::kNvfp4, Format::kMxfp4,
                              Format::kFp8Channel, Format::kFp8Block}) {
    SCOPED_TRACE(info(format).name);
    const Checkpoint dense = source([&](std::string_view) { return format; });
    options_.n_experts = format == Format::kFp8Block ? 3 : 4;
    const int64_t n_blocks = format == Format::kFp8Block ? 192 / 64 : 192 / 32;
    const auto pack = upcycle(dense);
    ASSERT_TRUE(pack) << pack.error().text();
    for (int layer = 0; layer < 2; ++layer) {
      const auto orders = upcycle_orders(options_, layer, n_blocks);
      ASSERT_TRUE(orders);
      const std::string prefix = fmt::format("layers.{}.", layer);
      for (int e = 0; e < options_.n_experts; ++e) {
        const BlockOrder* const order = &(*orders)[static_cast<size_t>(e)];
        const std::string expert = fmt::format("{}experts.{}.", prefix, e);
        SCOPED_TRACE(expert);
        EXPECT_EQ(pack->tensors.at(expert + "gate").format, format);
        EXPECT_EQ(values_of(*pack, expert + "gate"),
                  reordered(values_of(dense, prefix + "gate"), 192, order, nullptr));
        EXPECT_EQ(values_of(*pack, expert + "up"),
                  reordered(values_of(dense, prefix + "up"), 192, order, nullptr));
        EXPECT_EQ(values_of(*pack, expert + "down"),
                  reordered(values_of(dense, prefix + "down"), 64, nullptr, order));
      }
      EXPECT_FALSE(pack->tensors.contains(prefix + "gate"));
      EXPECT_EQ(values_of(*pack, prefix + "q"), values_of(dense, prefix + "q"));
    }
    EXPECT_TRUE(verify_pack(*pack, {}, {}));
  }
}

TEST_F(UpcyclePack, SpecSaysHowToMixThem) {
  const Checkpoint dense = source([](std::string_view) { return Format::kBF16; });
  const auto pack = upcycle(dense);
  ASSERT_TRUE(pack) << pack.error().text();
  EXPECT_TRUE(validate(pack->spec));
  EXPECT_EQ(pack->spec.family, Family::kLlama);
  EXPECT_EQ(pack->spec.moe.n_experts, 4);
  EXPECT_EQ(pack->spec.moe.top_k, 2);
  EXPECT_EQ(pack->spec.moe.expert_dim, 192);
  EXPECT_EQ(pack->spec.moe.shared_dim, 0);
  EXPECT_TRUE(pack->spec.moe.router.renormalize);
  EXPECT_EQ(pack->spec.moe.router.scale, 1.0);
  for (const LayerSpec& layer : pack->spec.layers) EXPECT_TRUE(layer.is_moe);
}

TEST_F(UpcyclePack, RouterIsSeededNoise) {
  const Checkpoint dense = source([](std::string_view) { return Format::kBF16; });
  const auto pack = upcycle(dense);
  ASSERT_TRUE(pack) << pack.error().text();
  const StoredTensor& router = pack->tensors.at("layers.1.router");
  EXPECT_EQ(router.format, Format::kF32);
  EXPECT_EQ(router.rows, 4);
  EXPECT_EQ(router.cols, 64);
  const Values values = values_of(*pack, "layers.1.router");
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    ASSERT_LE(std::fabs(value), std::sqrt(3.0F / 64));
    sum += value;
    squares += value * value;
  }
  // 256 draws: the mean within 4 deviations of 0, the variance near 1/64.
  EXPECT_NEAR(sum / 256, 0.0, 4 * std::sqrt(1.0 / 64 / 256));
  EXPECT_NEAR(squares / 256, 1.0 / 64, 0.25 / 64);
  EXPECT_NE(values, values_of(*pack, "layers.0.router"));

  options_.seed = 12;
  const auto other = upcycle(dense);
  ASSERT_TRUE(other);
  EXPECT_NE(values, values_of(*other, "layers.1.router"));
}

TEST_F(UpcyclePack, RouterNoiseEqualsTheDocumentedGenerator) {
  ModelSpec spec = tiny_dense_spec();
  spec.hidden_dim = 16;
  spec.layers.resize(6);
  const Checkpoint dense = source([](std::string_view) { return Format::kBF16; }, spec);
  const Json golden = golden_draws()["routers"];
  ASSERT_GE(golden.size(), 4U);
  for (const Json& draw : golden) {
    options_.seed = draw["seed"];
    const auto pack = upcycle(dense);
    ASSERT_TRUE(pack) << pack.error().text();
    const Values router =
        values_of(*pack, fmt::format("layers.{}.router", draw["layer"].get<int>()));
    const auto at = router.begin() + draw["expert"].get<int64_t>() * 16;
    EXPECT_EQ(Values(at, at + 16), draw["row"].get<Values>()) << draw.dump();
  }
}

// y = down (silu(gate x) * (up x)) in float64.
std::vector<double> mlp(const Checkpoint& checkpoint, const std::string& prefix,
                        std::span<const float> x) {
  const auto multiply = [](const Values& matrix, std::span<const double> in) {
    std::vector<double> out(matrix.size() / in.size());
    for (size_t r = 0; r < out.size(); ++r) {
      for (size_t c = 0; c < in.size(); ++c) out[r] += matrix[r * in.size() + c] * in[c];
    }
    return out;
  };
  const std::vector<double> in(x.begin(), x.end());
  std::vector<double> hidden = multiply(values_of(checkpoint, prefix + "gate"), in);
  const std::vector<double> up = multiply(values_of(checkpoint, prefix + "up"), in);
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] *= up[i] / (1 + std::exp(-hidden[i]));
  return multiply(values_of(checkpoint, prefix + "down"), hidden);
}

// Any expert alone computes what the MLP did, so any weights that sum to 1 do; but gate and up of
// one with down of another do not, so a mixture of experts' parts shows.
TEST_F(UpcyclePack, EveryExpertComputesTheSameFunction) {
  const Checkpoint dense = source([](std::string_view) { return Format::kF32; });
  const auto pack = upcycle(dense);
  ASSERT_TRUE(pack) << pack.error().text();
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Values x(64);
  for (float& value : x) value = normal(random);

  const std::vector<double> expected = mlp(dense, "layers.0.", x);
  for (int e = 0; e < 4; ++e) {
    const auto y = mlp(*pack, fmt::format("layers.0.experts.{}.", e), x);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-9);
  }
  Checkpoint mixed = *pack;
  mixed.tensors["layers.0.experts.0.down"] = mixed.tensors.at("layers.0.experts.1.down");
  const auto y = mlp(mixed, "layers.0.experts.0.", x);
  double difference = 0;
  for (size_t i = 0; i < y.size(); ++i) difference += std::fabs(y[i] - expected[i]);
  EXPECT_GT(difference, 1.0);
}

// Half a step of q8_0, and the rounding of the step to float16, of each group of 32.
void expect_near_in_q8_0(const Values& found, const Values& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto group = std::span(wanted).subspan(i / 32 * 32, 32);
    float amax = 0;
    for (const float value : group) amax = std::max(amax, std::fabs(value));
    ASSERT_NEAR(found[i], wanted[i], amax * (0.5F / 127 + 0x1p-11F) * 1.0001F) << i;
  }
}

TEST_F(UpcyclePack, EncodedExpertsAreTheMlpInAnotherOrder) {
  for (const Format stored : {Format::kGptq4, Format::kQ4_1, Format::kQ8_0}) {
    SCOPED_TRACE(info(stored).name);
    const Checkpoint dense = source([&](std::string_view) { return stored; });
    const auto pack = upcycle(dense, Format::kQ8_0);
    ASSERT_TRUE(pack) << pack.error().text();
    const auto orders = upcycle_orders(options_, 1, 6);
    for (int e = 0; e < 4; ++e) {
      const std::string expert = fmt::format("layers.1.experts.{}.", e);
      const BlockOrder* const order = &(*orders)[static_cast<size_t>(e)];
      EXPECT_EQ(pack->tensors.at(expert + "down").format, Format::kQ8_0);
      expect_near_in_q8_0(values_of(*pack, expert + "gate"),
                          reordered(values_of(dense, "layers.1.gate"), 192, order, nullptr));
      expect_near_in_q8_0(values_of(*pack, expert + "up"),
                          reordered(values_of(dense, "layers.1.up"), 192, order, nullptr));
      expect_near_in_q8_0(values_of(*pack, expert + "down"),
                          reordered(values_of(dense, "layers.1.down"), 64, nullptr, order));
    }
  }
}

TEST_F(UpcyclePack, BlocksThatCannotMoveAreRefused) {
  auto refused = upcycle(source([](std::string_view) { return Format::kGptq4; }));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().text(), HasSubstr("gptq4"));
  EXPECT_THAT(refused.error().text(), HasSubstr("--experts-format"));

  ModelSpec spec = tiny_dense_spec();
  spec.ffn_dim = 200;
  refused = upcycle(source([](std::string_view) { return Format::kBF16; }, spec));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("200, not a multiple of its blocks of 32"));

  options_.n_experts = 8;
  spec.ffn_dim = 96;
  refused = upcycle(source([](std::string_view) { return Format::kBF16; }, spec));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("3 blocks"));
}

TEST(UpcycleSpec, ModelsThatAreNotDenseLlamaLikeAreRefused) {
  const UpcycleOptions options{.n_experts = 4, .top_k = 2};
  EXPECT_TRUE(upcycle_spec(tiny_dense_spec(), options));
  EXPECT_FALSE(upcycle_spec(tiny_moe_spec(), options));

  ModelSpec spec = tiny_dense_spec();
  spec.mlp_bias = true;
  EXPECT_THAT(upcycle_spec(spec, options).error().text(), HasSubstr("bias"));
  spec = tiny_dense_spec();
  spec.family = Family::kGlm4Moe;
  EXPECT_THAT(upcycle_spec(spec, options).error().text(), HasSubstr("glm4_moe"));
  for (const UpcycleOptions bad :
       {UpcycleOptions{.n_experts = 1, .top_k = 1}, UpcycleOptions{.n_experts = -1, .top_k = 1},
        UpcycleOptions{.n_experts = 4, .top_k = 0}, UpcycleOptions{.n_experts = 4, .top_k = 5},
        UpcycleOptions{.n_experts = 70'000, .top_k = 1}}) {
    EXPECT_EQ(upcycle_spec(tiny_dense_spec(), bad).error().kind, ErrorKind::kInvalidArgument);
  }
}

}  // namespace
}  // namespace penstock
