#include "checkpoint/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "checkpoint/test_files.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json golden_config(const std::string& name) {
  return Json::parse(read_bytes(kGoldenFolder / name / "config.json"));
}

// The config with these fields changed; null takes one out.
Json changed(Json config, const Json& changes) {
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return config;
}

ModelSpec parsed(const Json& config) {
  auto parsed = parse_hf_config(config);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? parsed->spec : ModelSpec{};
}

void expect_refused(const Json& config, const std::string& expected,
                    ErrorKind kind = ErrorKind::kInvalidData) {
  const auto refused = parse_hf_config(config);
  ASSERT_FALSE(refused) << expected;
  EXPECT_THAT(refused.error().message, HasSubstr(expected));
  EXPECT_EQ(refused.error().kind, kind) << refused.error().message;
}

// The goldens' numbers are those of their config.json files, read by eye.
TEST(HfConfig, GoldenLlama) {
  ModelSpec expected{.family = Family::kLlama,
                     .vocab_size = 96,
                     .hidden_dim = 64,
                     .ffn_dim = 96,
                     .n_heads = 8,
                     .n_kv_heads = 2,
                     .head_dim = 16,
                     .context_length = 512,
                     .rms_eps = 1e-5,
                     .layers = {{}, {}}};
  expected.rope = {.type = RopeType::kLlama3,
                   .rotary_dims = 16,
                   .factor = 8.0,
                   .original_context = 64,
                   .low_freq_factor = 1.0,
                   .high_freq_factor = 4.0};
  EXPECT_EQ(parsed(golden_config("models/llama")), expected);
}

TEST(HfConfig, GoldenQwen) {
  const ModelSpec qwen2 = parsed(golden_config("models/qwen2"));
  EXPECT_EQ(qwen2.family, Family::kQwen2);
  EXPECT_EQ(qwen2.head_dim, 64 / 4) << "absent";
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.o_bias);
  EXPECT_TRUE(qwen2.tied_head);
  EXPECT_EQ(qwen2.layers[1].window, 0) << "use_sliding_window is false";
  const ModelSpec qwen3 = parsed(golden_config("models/qwen3"));
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.n_kv_heads, 1);
  EXPECT_EQ(qwen3.rope, (RopeSpec{.rotary_dims = 16}));
}

TEST(HfConfig, GoldenMixtures) {
  const ModelSpec mixtral = parsed(golden_config("models/mixtral"));
  EXPECT_EQ(mixtral.moe, (MoeSpec{.n_experts = 4, .top_k = 2, .expert_dim = 32}));
  EXPECT_EQ(mixtral.layers, (std::vector<LayerSpec>(2, {.is_moe = true})));
  const ModelSpec qwen = parsed(golden_config("models/qwen3_moe"));
  EXPECT_EQ(qwen.moe, (MoeSpec{.n_experts = 4, .top_k = 2, .expert_dim = 144}));
  const ModelSpec glm = parsed(golden_config("models/glm4_moe"));
  EXPECT_EQ(glm.moe,
            (MoeSpec{.n_experts = 6,
                     .top_k = 3,
                     .expert_dim = 32,
                     .shared_dim = 32,
                     .router = {.score = RouterScore::kSigmoid, .has_bias = true, .scale = 2.5}}));
  EXPECT_EQ(glm.layers, (std::vector<LayerSpec>{{}, {.is_moe = true}, {.is_moe = true}}));
  EXPECT_EQ(glm.rope.rotary_dims, 8);
  EXPECT_TRUE(glm.qkv_bias);
  EXPECT_FALSE(glm.o_bias) << "never in this family";
  EXPECT_TRUE(glm.qk_norm);
}

// Only model_type: everything else is the class's default in transformers (the table that
// docs/models.md repeats).
TEST(HfConfig, AbsentFieldsHaveTheFamilysDefaults) {
  const ModelSpec llama = parsed({{"model_type", "llama"}});
  EXPECT_EQ(llama.vocab_size, 32000);
  EXPECT_EQ(llama.n_kv_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.n_layers(), 32);
  EXPECT_EQ(llama.context_length, 2048);
  EXPECT_EQ(llama.rms_eps, 1e-6);
  const ModelSpec qwen3 = parsed({{"model_type", "qwen3"}, {"hidden_size", 1024}});
  EXPECT_EQ(qwen3.head_dim, 128) << "whatever the hidden size";
  const ModelSpec mixtral = parsed({{"model_type", "mixtral"}});
  EXPECT_EQ(mixtral.n_kv_heads, 8);
  EXPECT_EQ(mixtral.rope.theta, 1e6);
  EXPECT_EQ(mixtral.moe.n_experts, 8);
  EXPECT_EQ(mixtral.moe.expert_dim, 14336);
  const ModelSpec qwen3_moe = parsed({{"model_type", "qwen3_moe"}});
  EXPECT_FALSE(qwen3_moe.moe.router.renormalize);
  EXPECT_EQ(qwen3_moe.moe.expert_dim, 768);
  EXPECT_EQ(qwen3_moe.n_layers(), 24);
  const ModelSpec glm = parsed({{"model_type", "glm4_moe"}, {"head_dim", 128}});
  ASSERT_EQ(glm.n_layers(), 46);
  EXPECT_EQ(glm.rope.rotary_dims, 64) << "half of each head";
  EXPECT_FALSE(glm.qk_norm);
  EXPECT_FALSE(glm.qkv_bias);
  EXPECT_EQ(glm.moe.shared_dim, 1408);
  EXPECT_EQ(glm.layers[0].is_moe, false);
  EXPECT_EQ(glm.layers[1].is_moe, true);
}

TEST(HfConfig, EverySpellingMeansTheSame) {
  const Json qwen = golden_config("models/qwen3_moe");
  const ModelSpec expected = parsed(qwen);
  const auto renamed = [&](const char* from, const char* to) {
    Json config = qwen;
    config[to] = config[from];
    config.erase(from);
    return config;
  };
  EXPECT_EQ(parsed(renamed("num_experts", "num_local_experts")), expected);
  EXPECT_EQ(parsed(renamed("num_experts", "n_routed_experts")), expected);
  EXPECT_EQ(parsed(renamed("num_experts_per_tok", "experts_per_token")), expected);
  EXPECT_EQ(parsed(renamed("num_experts_per_tok", "num_experts_per_token")), expected);
  EXPECT_EQ(parsed(renamed("hidden_act", "hidden_activation")), expected);
  EXPECT_EQ(parsed(renamed("torch_dtype", "dtype")), expected);
  Json no_architectures = qwen;
  no_architectures.erase("architectures");
  EXPECT_EQ(parsed(no_architectures), expected);
  Json no_model_type = qwen;
  no_model_type.erase("model_type");
  EXPECT_EQ(parsed(no_model_type), expected);
}

TEST(HfConfig, TextConfigWinsOverItsWrapper) {
  Json inner = golden_config("models/qwen3_moe");
  inner.erase("architectures");
  inner.erase("tie_word_embeddings");
  inner.erase("rms_norm_eps");
  const Json wrapper = {{"architectures", {"SomethingForConditionalGeneration"}},
                        {"model_type", "something"},
                        {"hidden_size", 7},
                        {"rms_norm_eps", 1e-6},
                        {"tie_word_embeddings", true},
                        {"vision_config", {{"hidden_size", 9}}},
                        {"text_config", inner}};
  ModelSpec expected = parsed(golden_config("models/qwen3_moe"));
  expected.tied_head = true;
  EXPECT_EQ(parsed(wrapper), expected);
}

TEST(HfConfig, HeadsThatAreNullOrAbsent) {
  const Json llama = golden_config("models/llama");
  EXPECT_EQ(parsed(changed(llama, {{"num_key_value_heads", nullptr}})).n_kv_heads, 8);
  EXPECT_EQ(parsed(changed(llama, {{"head_dim", nullptr}})).head_dim, 8);
  Json mixtral = golden_config("models/mixtral");
  mixtral["num_attention_heads"] = 16;
  mixtral["head_dim"] = 4;
  mixtral.erase("num_key_value_heads");
  EXPECT_EQ(parsed(mixtral).n_kv_heads, 8) << "absent: the family's number";
  mixtral["num_key_value_heads"] = nullptr;
  EXPECT_EQ(parsed(mixtral).n_kv_heads, 16) << "null: as many as heads";
}

TEST(HfConfig, Biases) {
  const Json on = {{"attention_bias", true}, {"mlp_bias", true}};
  const ModelSpec llama = parsed(changed(golden_config("models/llama"), on));
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
  const ModelSpec qwen3 = parsed(changed(golden_config("models/qwen3"), on));
  EXPECT_TRUE(qwen3.qkv_bias && qwen3.o_bias);
  EXPECT_FALSE(qwen3.mlp_bias);
  const ModelSpec mixtral = parsed(changed(golden_config("models/mixtral"), on));
  EXPECT_FALSE(mixtral.qkv_bias || mixtral.o_bias || mixtral.mlp_bias);
}

TEST(HfConfig, RopeInEveryPlace) {
  const Json qwen3 = golden_config("models/qwen3");
  const auto rope = [&](const Json& changes) { return parsed(changed(qwen3, changes)).rope; };
  const RopeSpec plain{.rotary_dims = 16, .theta = 5e5};
  EXPECT_EQ(rope({{"rope_parameters", {{"rope_theta", 5e5}}}}), plain);
  EXPECT_EQ(rope({{"rope_parameters", nullptr}, {"rope_theta", 500000}}), plain);
  EXPECT_EQ(rope({{"rope_parameters", nullptr}, {"rope_scaling", nullptr}, {"rope_theta", 5e5}}),
            plain);
  const Json of_layers = {{"full_attention", {{"rope_theta", 5e5}, {"rope_type", "default"}}},
                          {"sliding_attention", {{"rope_theta", 5e5}, {"rope_type", "default"}}}};
  EXPECT_EQ(rope({{"rope_parameters", of_layers}}), plain);
  Json two = of_layers;
  two["sliding_attention"]["rope_theta"] = 1e4;
  expect_refused(changed(qwen3, {{"rope_parameters", two}}), "differ between kinds of layers",
                 ErrorKind::kUnsupported);
  EXPECT_EQ(rope({{"partial_rotary_factor", 0.5}}).rotary_dims, 8);
  EXPECT_EQ(rope({{"rope_parameters", {{"partial_rotary_factor", 0.25}}}}).rotary_dims, 4);
}

TEST(HfConfig, RopeTypes) {
  const Json qwen3 = golden_config("models/qwen3");  // 512 positions
  const auto scaled = [&](const Json& scaling, const Json& more = Json::object()) {
    Json config = changed(qwen3, more);
    config.erase("rope_parameters");
    config["rope_scaling"] = scaling;
    return parsed(config).rope;
  };
  EXPECT_EQ(scaled({{"type", "linear"}, {"factor", 2}}),
            (RopeSpec{.type = RopeType::kLinear, .rotary_dims = 16, .factor = 2}));
  EXPECT_EQ(
      scaled({{"rope_type", "dynamic"}, {"factor", 2.5}}),
      (RopeSpec{
          .type = RopeType::kDynamic, .rotary_dims = 16, .factor = 2.5, .original_context = 512}));
  EXPECT_EQ(scaled({{"rope_type", "yarn"},
                    {"original_max_position_embeddings", 128},
                    {"beta_fast", 24},
                    {"beta_slow", 2},
                    {"truncate", false},
                    {"attention_factor", 1.25},
                    {"mscale", 0.5},
                    {"mscale_all_dim", 0.25}}),
            (RopeSpec{.type = RopeType::kYarn,
                      .rotary_dims = 16,
                      .factor = 512.0 / 128.0,
                      .original_context = 128,
                      .beta_fast = 24,
                      .beta_slow = 2,
                      .truncate = false,
                      .attention_factor = 1.25,
                      .mscale = 0.5,
                      .mscale_all_dim = 0.25}));
  EXPECT_EQ(scaled({{"rope_type", "yarn"}, {"factor", 4}}).original_context, 512) << "absent";
  EXPECT_EQ(scaled({{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64}},
                   {{"original_max_position_embeddings", 32}})
                .original_context,
            32)
      << "the top-level field wins";
  const Json eight = Json::array({1, 1, 1, 1, 2, 2, 2, 2.5});
  const Json long_rope = {
      {"short_factor", eight}, {"long_factor", eight}, {"original_max_position_embeddings", 128}};
  RopeSpec expected{.type = RopeType::kLongrope,
                    .rotary_dims = 16,
                    .factor = 4.0,
                    .original_context = 128,
                    .short_factor = {1, 1, 1, 1, 2, 2, 2, 2.5},
                    .long_factor = {1, 1, 1, 1, 2, 2, 2, 2.5}};
  for (const char* name : {"longrope", "su"}) {
    EXPECT_EQ(scaled(changed(long_rope, {{"type", name}})), expected);
  }
}

TEST(HfConfig, Windows) {
  const auto windows = [](const Json& config) {
    std::vector<int64_t> found;
    for (const LayerSpec& layer : parsed(config).layers) found.push_back(layer.window);
    return found;
  };
  const Json on = {{"use_sliding_window", true}, {"sliding_window", 32}, {"max_window_layers", 1}};
  const Json qwen2 = changed(golden_config("models/qwen2"), on);
  EXPECT_THAT(windows(qwen2), ElementsAre(0, 32));
  EXPECT_THAT(windows(changed(qwen2, {{"max_window_layers", nullptr}})), ElementsAre(0, 0))
      << "28 layers first";
  EXPECT_THAT(windows(changed(qwen2, {{"sliding_window", nullptr}})), ElementsAre(0, 4096));
  EXPECT_THAT(windows(changed(qwen2, {{"use_sliding_window", false}})), ElementsAre(0, 0));
  EXPECT_THAT(windows(changed(qwen2, {{"layer_types", {"sliding_attention", "full_attention"}}})),
              ElementsAre(32, 0))
      << "layer_types win";
  EXPECT_THAT(windows(changed(golden_config("models/qwen3_moe"), on)), ElementsAre(32, 32));
  EXPECT_THAT(windows(changed(golden_config("models/mixtral"), {{"sliding_window", 16}})),
              ElementsAre(16, 16));
  EXPECT_THAT(windows(changed(golden_config("models/llama"), on)), ElementsAre(0, 0));

  expect_refused(changed(qwen2, {{"layer_types", {"full_attention"}}}),
                 "\"layer_types\" has 1 entries for 2 layers");
  expect_refused(changed(qwen2, {{"layer_types", {"linear_attention", "full_attention"}}}),
                 "layer type \"linear_attention\" is not supported", ErrorKind::kUnsupported);
  expect_refused(changed(golden_config("models/qwen3"),
                         {{"layer_types", {"sliding_attention", "full_attention"}}}),
                 "makes layer 0 a sliding one, but no window is in use");
}

TEST(HfConfig, WhichLayersAreMixtures) {
  const auto moe_layers = [](const Json& config) {
    std::vector<int> found;
    const ModelSpec spec = parsed(config);
    for (int i = 0; i < spec.n_layers(); ++i) {
      if (spec.layers[static_cast<size_t>(i)].is_moe) found.push_back(i);
    }
    return found;
  };
  const Json qwen = changed(golden_config("models/qwen3_moe"), {{"num_hidden_layers", 6}});
  EXPECT_THAT(moe_layers(qwen), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(moe_layers(changed(qwen, {{"mlp_only_layers", {0, 4}}})), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(moe_layers(changed(qwen, {{"decoder_sparse_step", 2}})), ElementsAre(1, 3, 5));
  EXPECT_THAT(moe_layers(changed(qwen, {{"num_experts", 0}})), ElementsAre());
  const Json glm = changed(golden_config("models/glm4_moe"), {{"first_k_dense_replace", 2}});
  EXPECT_THAT(moe_layers(glm), ElementsAre(2));
}

TEST(HfConfig, EndsAreOneOrMany) {
  const Json llama = golden_config("models/llama");
  EXPECT_THAT(parse_hf_config(llama)->eos_ids, ElementsAre(2));
  EXPECT_THAT(parse_hf_config(changed(llama, {{"eos_token_id", {7, 8}}}))->eos_ids,
              ElementsAre(7, 8));
  EXPECT_THAT(parse_hf_config(changed(llama, {{"eos_token_id", nullptr}}))->eos_ids, ElementsAre());
  expect_refused(changed(llama, {{"eos_token_id", "</s>"}}), "\"eos_token_id\" is \"</s>\"");
}

TEST(HfConfigBc25, UnknownNamesAreRefusedWithWhatIsSupported) {
  const Json llama = golden_config("models/llama");
  const auto unsupported = ErrorKind::kUnsupported;
  expect_refused(changed(llama, {{"architectures", {"FooMoeForCausalLM"}}}),
                 "architecture \"FooMoeForCausalLM\" is not supported; those that are: "
                 "LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, MixtralForCausalLM, "
                 "Qwen3MoeForCausalLM, Glm4MoeForCausalLM",
                 unsupported);
  Json no_architectures = changed(llama, {{"model_type", "foo_moe"}});
  no_architectures.erase("architectures");
  expect_refused(no_architectures,
                 "model_type \"foo_moe\" is not supported; those that are: llama, qwen2, qwen3, "
                 "mixtral, qwen3_moe, glm4_moe",
                 unsupported);
  no_architectures.erase("model_type");
  expect_refused(no_architectures, "there is neither \"model_type\" nor \"architectures\"");
  expect_refused(changed(llama, {{"model_type", "qwen2"}}),
                 "architecture \"LlamaForCausalLM\" contradicts model_type \"qwen2\"");
  expect_refused(changed(llama, {{"rope_scaling", {{"rope_type", "mrope"}}}}),
                 "rope type \"mrope\" is not supported; those that are: default, linear, dynamic",
                 unsupported);
  expect_refused(changed(llama, {{"hidden_act", "gelu"}}),
                 "activation \"gelu\" is not supported, expected silu", unsupported);
}

TEST(HfConfigBc26, QuantizationMethods) {
  const Json llama = golden_config("models/llama");
  const auto with = [&](const Json& quantization) {
    return changed(llama, {{"quantization_config", quantization}});
  };
  const auto unsupported = ErrorKind::kUnsupported;
  expect_refused(with({{"quant_method", "exl3"}}),
                 "quant_method \"exl3\" is not supported; those that are: fp8, modelopt, "
                 "compressed-tensors, gptq, awq",
                 unsupported);
  expect_refused(with({{"bits", 4}}), "\"quantization_config\" has no \"quant_method\"");
  expect_refused(with("gptq"), "\"quantization_config\" is \"gptq\"");
  expect_refused(with({{"quant_method", "gptq"}, {"bits", 3}}), "gptq with 3 bits", unsupported);
  expect_refused(with({{"quant_method", "gptq"}, {"checkpoint_format", "marlin"}}),
                 "GPTQ checkpoint_format \"marlin\"", unsupported);
  expect_refused(with({{"quant_method", "awq"}, {"version", "gemv"}}), "AWQ version \"gemv\"",
                 unsupported);
  expect_refused(with({{"quant_method", "awq"}, {"group_size", 0}}), "\"group_size\" is 0");
  expect_refused(with({{"quant_method", "fp8"}, {"weight_block_size", {128}}}),
                 "\"weight_block_size\" is [128]");
  expect_refused(with({{"quant_method", "fp8"}, {"weight_block_size", {128, 0}}}),
                 "\"weight_block_size\" is [128, 0]");

  const auto quantization = [&](const Json& json) {
    return parse_hf_config(with(json))->quantization;
  };
  EXPECT_FALSE(
      quantization({{"quant_method", "gptq"}, {"checkpoint_format", "gptq_v2"}}).zeros_minus_one);
  EXPECT_TRUE(quantization({{"quant_method", "gptq"}}).zeros_minus_one);
  EXPECT_TRUE(quantization({{"quant_method", "gptq"}, {"desc_act", true}}).act_order);
  EXPECT_EQ(
      quantization({{"quant_method", "awq"}, {"version", "GEMM"}, {"group_size", 64}}).group_size,
      64);
  EXPECT_EQ(quantization({{"quant_method", "fp8"}, {"weight_block_size", {64, 32}}}).block_cols,
            32u);
}

TEST(HfConfig, NumbersOfWrongKinds) {
  const Json llama = golden_config("models/llama");
  for (const Json& wrong : {Json("64"), Json(-1), Json(0), Json(64.5), Json(Json::array({64})),
                            Json(true), Json(~uint64_t{0})}) {
    for (const char* field :
         {"hidden_size", "vocab_size", "intermediate_size", "num_hidden_layers",
          "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
      expect_refused(changed(llama, {{field, wrong}}), std::string("\"") + field + "\" is ");
    }
  }
  expect_refused(changed(llama, {{"rms_norm_eps", "1e-5"}}), "\"rms_norm_eps\" is \"1e-5\"");
  expect_refused(changed(llama, {{"rms_norm_eps", -1}}), "the norm's epsilon is -1");
  expect_refused(changed(llama, {{"tie_word_embeddings", "no"}}), "expected true or false");
  expect_refused(changed(llama, {{"num_hidden_layers", 1'000'000'000}}),
                 "\"num_hidden_layers\" is 1000000000, expected a whole number from 1 to 65535");
  expect_refused(changed(llama, {{"rope_scaling", "yarn"}}), "the rope parameters are \"yarn\"");
  expect_refused(changed(llama, {{"rope_scaling", {{"type", "linear"}}}}), "have no \"factor\"");
  expect_refused(changed(llama, {{"partial_rotary_factor", 1.5}}), "\"partial_rotary_factor\"");
  expect_refused(changed(llama, {{"hidden_act", 7}}), "\"hidden_act\" is 7, expected a string");
  expect_refused(changed(llama, {{"num_key_value_heads", 3}}), "no multiple of 3 kv heads");
  expect_refused(changed(llama, {{"architectures", "LlamaForCausalLM"}}),
                 "expected a list of strings");
  expect_refused(changed(golden_config("models/mixtral"), {{"num_experts_per_tok", 5}}),
                 "experts per token is 5, expected 1 to 4");
  expect_refused(Json::array(), "the whole is [], expected an object");
}

}  // namespace
}  // namespace penstock
