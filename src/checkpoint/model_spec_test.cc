#include "checkpoint/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace penstock {
namespace {

using testing::HasSubstr;

ModelSpec small_spec() {
  return {.family = Family::kQwen3Moe,
          .vocab_size = 100,
          .hidden_dim = 32,
          .ffn_dim = 64,
          .n_heads = 4,
          .n_kv_heads = 2,
          .head_dim = 8,
          .context_length = 512,
          .rope = {.rotary_dims = 8},
          .moe = {.n_experts = 8, .top_k = 2, .expert_dim = 16},
          .layers = {{.is_moe = false}, {.is_moe = true, .window = 32}}};
}

// No field has its default, so that one that is not written shows.
ModelSpec full_spec() {
  ModelSpec spec = small_spec();
  spec.family = Family::kGlm4Moe;
  spec.rms_eps = 1.0 / 3.0;
  spec.tied_head = spec.qkv_bias = spec.o_bias = spec.mlp_bias = spec.qk_norm = true;
  spec.rope = {.type = RopeType::kLongrope,
               .pairs = RopePairs::kInterleaved,
               .rotary_dims = 4,
               .theta = 12345.678901234567,
               .factor = 0.1,
               .original_context = 1 << 20,
               .low_freq_factor = 2.0,
               .high_freq_factor = 3.0,
               .beta_fast = 31.0,
               .beta_slow = 1.5,
               .truncate = false,
               .attention_factor = 1.1,
               .mscale = 0.707,
               .mscale_all_dim = 0.708,
               .short_factor = {1.0, 1.1},
               .long_factor = {2.0, 2.2},
               .freq_divisors = {1.0F, 7.667385F}};
  spec.moe = {.n_experts = 8,
              .top_k = 3,
              .expert_dim = 16,
              .shared_dim = 24,
              .router = {.score = RouterScore::kSigmoid,
                         .has_bias = true,
                         .renormalize = false,
                         .n_groups = 4,
                         .top_groups = 2,
                         .scale = 2.5}};
  return spec;
}

TEST(ModelSpec, SurvivesJsonWhole) {
  for (const ModelSpec& spec : {small_spec(), full_spec()}) {
    const std::string text = to_json(spec).dump();
    const auto parsed = parse_json(text);
    ASSERT_TRUE(parsed);
    const auto back = spec_from_json(*parsed);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, spec) << text;
  }
  EXPECT_EQ(to_json(small_spec())["rope"]["attention_factor"], nullptr);
  EXPECT_EQ(to_json(full_spec())["family"], "glm4_moe");
}

// Every path to a value of `json`, as pointers.
void collect_paths(const Json& json, const Json::json_pointer& at,
                   std::vector<Json::json_pointer>& paths) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      paths.push_back(at / key);
      collect_paths(value, at / key, paths);
    }
  }
  for (size_t i = 0; json.is_array() && i < json.size(); ++i) {
    collect_paths(json[i], at / i, paths);
  }
}

TEST(ModelSpec, EveryFieldIsDemandedAndHasOneType) {
  const Json good = to_json(full_spec());
  std::vector<Json::json_pointer> paths;
  collect_paths(good, Json::json_pointer(), paths);
  ASSERT_EQ(paths.size(), 17u + 17 + 5 + 6 + 2 * 2);
  for (const auto& path : paths) {
    Json without = good;
    without[path.parent_pointer()].erase(path.back());
    const auto missing = spec_from_json(without);
    ASSERT_FALSE(missing) << path.to_string();
    EXPECT_THAT(missing.error().message, HasSubstr(path.back() + " is missing"));

    for (const Json& wrong :
         {Json("word"), Json(Json::object()), Json::parse("[[]]"), Json(-0.5)}) {
      Json changed = good;
      if (changed[path].type() == wrong.type()) continue;
      changed[path] = wrong;
      EXPECT_FALSE(spec_from_json(changed)) << path.to_string() << " = " << wrong;
    }
  }
}

TEST(ModelSpec, JsonThatToJsonCouldNotHaveWritten) {
  EXPECT_FALSE(spec_from_json(Json()));
  EXPECT_FALSE(spec_from_json(Json::array()));
  Json more = to_json(small_spec());
  more["rope"]["extra"] = 1;
  EXPECT_THAT(spec_from_json(more).error().message, HasSubstr("rope has 18 entries, expected 17"));
  Json word = to_json(small_spec());
  word["family"] = "gpt2";
  EXPECT_THAT(spec_from_json(word).error().message,
              HasSubstr("family is \"gpt2\", expected one of: llama, qwen2"));
  Json large = to_json(small_spec());
  large["n_heads"] = int64_t{1} << 40;
  EXPECT_THAT(spec_from_json(large).error().message, HasSubstr("n_heads is 1099511627776"));
  Json invalid = to_json(small_spec());
  invalid["n_kv_heads"] = 3;
  EXPECT_THAT(spec_from_json(invalid).error().message, HasSubstr("no multiple of 3 kv heads"));
}

TEST(ModelSpec, NumbersThatContradictEachOther) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  struct {
    std::function<void(ModelSpec&)> change;
    const char* expected;
  } cases[] = {
      {[](ModelSpec& s) { s.vocab_size = 0; }, "the vocabulary size is 0"},
      {[](ModelSpec& s) { s.hidden_dim = -1; }, "the hidden size is -1"},
      {[](ModelSpec& s) { s.context_length = 0; }, "the context length is 0"},
      {[&](ModelSpec& s) { s.rms_eps = nan; }, "the norm's epsilon is nan"},
      {[](ModelSpec& s) { s.n_heads = 0; }, "the count of heads is 0"},
      {[](ModelSpec& s) { s.n_kv_heads = 8; }, "the count of kv heads is 8, expected 1 to 4"},
      {[](ModelSpec& s) { s.n_kv_heads = 3; }, "4 heads are no multiple of 3 kv heads"},
      {[](ModelSpec& s) { s.head_dim = 1 << 30; }, "the size of all heads is 4294967296"},
      {[](ModelSpec& s) { s.rope.rotary_dims = 10; }, "rotary dimensions is 10, expected 2 to 8"},
      {[](ModelSpec& s) { s.rope.rotary_dims = 7; }, "is 7, expected an even number"},
      {[](ModelSpec& s) { s.rope.theta = 1.0; }, "rope theta is 1"},
      {[&](ModelSpec& s) { s.rope.theta = inf; }, "rope theta is inf"},
      {[](ModelSpec& s) { s.rope.factor = 0; }, "rope factor is 0"},
      {[](ModelSpec& s) { s.rope.attention_factor = -1; }, "rope attention_factor is -1"},
      {[](ModelSpec& s) { s.rope.type = RopeType::kYarn; }, "rope original context is 0"},
      {[](ModelSpec& s) {
         s.rope.type = RopeType::kYarn;
         s.rope.original_context = 64;
         s.rope.beta_slow = 0;
       },
       "rope beta_slow is 0"},
      {[](ModelSpec& s) {
         s.rope.type = RopeType::kLlama3;
         s.rope.original_context = 64;
         s.rope.high_freq_factor = 1.0;
       },
       "rope high_freq_factor is 1, expected more than low_freq_factor 1"},
      {[](ModelSpec& s) {
         s.rope.type = RopeType::kLongrope;
         s.rope.original_context = 64;
         s.rope.short_factor = {1, 1, 1, 1};
       },
       "rope long_factor has 0 numbers, expected 4"},
      {[](ModelSpec& s) { s.rope.freq_divisors = {1, 1, 1, 0}; }, "rope freq_divisors holds 0"},
      {[](ModelSpec& s) { s.layers.clear(); }, "the count of layers is 0"},
      {[](ModelSpec& s) { s.layers[0].window = -1; }, "a sliding window is -1"},
      {[](ModelSpec& s) { s.ffn_dim = 0; }, "the feed-forward width is 0"},
      {[](ModelSpec& s) { s.moe.n_experts = 0; }, "the count of experts is 0"},
      {[](ModelSpec& s) { s.moe.n_experts = 65536; }, "the count of experts is 65536"},
      {[](ModelSpec& s) { s.moe.top_k = 9; }, "experts per token is 9, expected 1 to 8"},
      {[](ModelSpec& s) { s.moe.expert_dim = 0; }, "the width of an expert is 0"},
      {[](ModelSpec& s) { s.moe.shared_dim = -1; }, "the width of the shared expert is -1"},
      {[](ModelSpec& s) { s.moe.router.n_groups = 3; }, "8 experts do not divide into 3 groups"},
      {[](ModelSpec& s) { s.moe.router.top_groups = 2; }, "groups per token is 2, expected 1 to 1"},
      {[](ModelSpec& s) { s.moe.router.n_groups = 8; },
       "experts per token, from the chosen groups, is 2, expected 1 to 1"},
      {[&](ModelSpec& s) { s.moe.router.scale = nan; }, "the router's scale is nan"},
  };
  ASSERT_TRUE(validate(small_spec()));
  ASSERT_TRUE(validate(full_spec()));
  for (const auto& bad : cases) {
    ModelSpec spec = small_spec();
    bad.change(spec);
    const auto valid = validate(spec);
    ASSERT_FALSE(valid) << bad.expected;
    EXPECT_THAT(valid.error().message, HasSubstr(bad.expected));
  }
}

TEST(ModelSpec, WhatALayerDoesNotUseIsNotChecked) {
  ModelSpec dense = small_spec();
  dense.layers = {{.is_moe = false}};
  dense.moe = {};
  EXPECT_TRUE(validate(dense));
  ModelSpec sparse = small_spec();
  sparse.layers = {{.is_moe = true}};
  sparse.ffn_dim = 0;
  EXPECT_TRUE(validate(sparse));
}

}  // namespace
}  // namespace penstock
