#include "checkpoint/gguf_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "checkpoint/test_files.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A model of one layer: hidden 32, 2 heads of 16, 1 kv head, feed-forward 64, vocabulary 8.
class TinyGguf {
 public:
  explicit TinyGguf(std::string arch) : arch_(std::move(arch)) {
    set("general.architecture", gguf_key("general.architecture", arch_.c_str()));
    number("embedding_length", 32);
    number("context_length", 128);
    number("block_count", 1);
    number("feed_forward_length", 64);
    number("attention.head_count", 2);
    number("attention.head_count_kv", 1);
    set("eps", gguf_key(arch_ + ".attention.layer_norm_rms_epsilon", 1e-5F));
    f32("token_embd.weight", {32, 8});
    f32("output.weight", {32, 8});
    f32("output_norm.weight", {32});
    f32("blk.0.attn_norm.weight", {32});
    f32("blk.0.ffn_norm.weight", {32});
    f32("blk.0.attn_q.weight", {32, 32});
    f32("blk.0.attn_k.weight", {32, 16});
    f32("blk.0.attn_v.weight", {32, 16});
    f32("blk.0.attn_output.weight", {32, 32});
    f32("blk.0.ffn_gate.weight", {32, 64});
    f32("blk.0.ffn_up.weight", {32, 64});
    f32("blk.0.ffn_down.weight", {64, 32});
  }

  // A key below the architecture; set() takes any.
  void number(const std::string& name, uint32_t value) {
    set(name, gguf_key(arch_ + "." + name, value));
  }
  void real(const std::string& name, float value) {
    set(name, gguf_key(arch_ + "." + name, value));
  }
  void text(const std::string& name, const char* value) {
    set(name, gguf_key(arch_ + "." + name, value));
  }
  void set(const std::string& name, std::string key) { keys_[name] = std::move(key); }
  void unset(const std::string& name) { keys_.erase(name); }

  void tensor(const std::string& name, std::vector<uint64_t> dims, uint32_t type,
              std::string bytes) {
    tensors_[name] = {std::move(dims), type, std::move(bytes)};
  }
  // Zeros, or the given numbers.
  void f32(const std::string& name, std::vector<uint64_t> dims,
           const std::vector<float>& values = {}) {
    uint64_t n = 1;
    for (const uint64_t dim : dims) n *= dim;
    std::string bytes(n * 4, '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), values.size() * 4);
    tensor(name, std::move(dims), 0, std::move(bytes));
  }
  void remove(const std::string& name) { tensors_.erase(name); }

  // Four experts of width 64, two chosen, in place of the dense feed-forward.
  void make_moe() {
    for (const char* part : {"gate", "up", "down"}) {
      const std::string name = std::string("blk.0.ffn_") + part;
      remove(name + ".weight");
      const bool is_down = std::string(part) == "down";
      f32(name + "_exps.weight", {is_down ? 64u : 32u, is_down ? 32u : 64u, 4});
    }
    f32("blk.0.ffn_gate_inp.weight", {32, 4});
    number("expert_count", 4);
    number("expert_used_count", 2);
    number("expert_feed_forward_length", 64);
  }

  std::string bytes() const {
    GgufFileParts parts;
    for (const auto& [name, key] : keys_) parts.keys.push_back(key);
    for (const auto& [name, t] : tensors_) parts.add(name, t.dims, t.type, t.bytes);
    return parts.bytes();
  }
  Result<Checkpoint> open() const {
    bytes_ = bytes();
    const GgufFile file = {"tiny.gguf", bytes_of(bytes_)};
    return gguf_checkpoint(std::span(&file, 1));
  }
  // What an extent of the file opened last holds.
  std::string at(const Extent& extent) const { return bytes_.substr(extent.offset, extent.bytes); }

 private:
  struct Tensor {
    std::vector<uint64_t> dims;
    uint32_t type;
    std::string bytes;
  };
  std::string arch_;
  std::map<std::string, std::string> keys_;
  std::map<std::string, Tensor> tensors_;
  mutable std::string bytes_;
};

// Expects the file to be refused with a message that contains `expected`, its name included.
void expect_refused(const TinyGguf& file, const std::string& expected) {
  const auto checkpoint = file.open();
  ASSERT_FALSE(checkpoint) << expected;
  EXPECT_THAT(checkpoint.error().message, HasSubstr(expected));
  EXPECT_THAT(checkpoint.error().message, HasSubstr("tiny.gguf: "));
}

Checkpoint opened(const TinyGguf& file) {
  auto checkpoint = file.open();
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  return checkpoint ? *std::move(checkpoint) : Checkpoint{};
}

// The goldens' shapes are those of tests/golden/make_gguf.py: small(), wide(), moe_wide(), write().
ModelSpec golden_spec() {
  ModelSpec spec{.family = Family::kLlama,
                 .vocab_size = 80,
                 .hidden_dim = 64,
                 .ffn_dim = 64,
                 .n_heads = 4,
                 .n_kv_heads = 2,
                 .head_dim = 16,
                 .context_length = 512,
                 .rms_eps = 1e-5F,
                 .layers = {{}, {}}};
  spec.rope.pairs = RopePairs::kInterleaved;
  spec.rope.rotary_dims = 16;
  return spec;
}

TEST(GgufCheckpoint, GoldenLlama) {
  for (const char* name : {"q4_1", "q4_0", "q8_0", "iq4_nl", "f16-bf16"}) {
    const auto checkpoint =
        open_checkpoint(kGoldenFolder / "gguf" / (std::string("llama-") + name + ".gguf"));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    ModelSpec spec = checkpoint->spec;
    // 1, then the factor 8 at the low end: rope_factors() of the maker.
    ASSERT_EQ(spec.rope.freq_divisors.size(), 8u);
    EXPECT_EQ(spec.rope.freq_divisors.front(), 1.0F);
    EXPECT_EQ(spec.rope.freq_divisors.back(), 8.0F);
    spec.rope.freq_divisors.clear();
    EXPECT_EQ(spec, golden_spec());
    EXPECT_EQ(checkpoint->kind, SourceKind::kGguf);
    EXPECT_EQ(checkpoint->name, std::string("llama-") + name);
    EXPECT_EQ(checkpoint->tensors.size(), 3u + 2 * 9);
    EXPECT_EQ(checkpoint->generation.bos_id, 1);
    EXPECT_THAT(checkpoint->generation.eos_ids, ElementsAre(2));
    EXPECT_TRUE(checkpoint->tokenizer.ggml.is_null()) << "tokenizer model \"none\"";
    EXPECT_TRUE(checkpoint->notes.empty());
  }
}

// The table of make_gguf.py's one_of_each().
TEST(GgufCheckpoint, GoldenMixOfFormats) {
  const auto checkpoint = open_checkpoint(kGoldenFolder / "gguf/llama-k-mix.gguf");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto format = [&](const char* name) { return checkpoint->tensors.at(name).format; };
  EXPECT_EQ(format("embed"), Format::kQ5_K);
  EXPECT_EQ(format("layers.0.q"), Format::kQ2_K);
  EXPECT_EQ(format("layers.0.k"), Format::kQ3_K);
  EXPECT_EQ(format("layers.0.v"), Format::kIQ4_XS);
  EXPECT_EQ(format("layers.0.o"), Format::kIQ4_NL);
  EXPECT_EQ(format("head"), Format::kQ6_K);
  EXPECT_EQ(format("layers.0.attn_norm"), Format::kF32);
}

TEST(GgufCheckpoint, GoldenMixtures) {
  const auto mixtral = open_checkpoint(kGoldenFolder / "gguf/mixtral-mxfp4.gguf");
  ASSERT_TRUE(mixtral) << mixtral.error().message;
  ModelSpec expected = golden_spec();
  expected.family = Family::kMixtral;
  expected.ffn_dim = 32;
  expected.layers = {{.is_moe = true}};
  expected.moe = {.n_experts = 4, .top_k = 2, .expert_dim = 32};
  EXPECT_EQ(mixtral->spec, expected);
  EXPECT_EQ(mixtral->tensors.at("layers.0.experts.3.down").format, Format::kMxfp4Block);

  const auto qwen = open_checkpoint(kGoldenFolder / "gguf/qwen3moe-q4_k_m.gguf");
  ASSERT_TRUE(qwen) << qwen.error().message;
  EXPECT_EQ(qwen->spec.family, Family::kQwen3Moe);
  EXPECT_EQ(qwen->spec.rope.pairs, RopePairs::kHalves) << "only architecture llama is reordered";
  EXPECT_TRUE(qwen->spec.qk_norm);
  EXPECT_EQ(qwen->spec.moe, (MoeSpec{.n_experts = 4, .top_k = 2, .expert_dim = 64}));
}

TEST(GgufCheckpoint, StackedExpertsAreSlices) {
  for (const char* arch : {"llama", "qwen3moe"}) {
    TinyGguf file(arch);
    file.make_moe();
    file.f32("blk.0.attn_q_norm.weight", {16});
    file.f32("blk.0.attn_k_norm.weight", {16});
    // Expert e is filled with the byte 'a' + e.
    std::string stack;
    for (char e = 'a'; e < 'e'; ++e) stack += std::string(32 * 64 * 4, e);
    file.tensor("blk.0.ffn_up_exps.weight", {32, 64, 4}, 0, stack);
    const Checkpoint checkpoint = opened(file);
    EXPECT_EQ(checkpoint.spec.layers[0].is_moe, true);
    for (int e = 0; e < 4; ++e) {
      const auto& up = checkpoint.tensors.at("layers.0.experts." + std::to_string(e) + ".up");
      EXPECT_EQ(file.at(up.data), std::string(32 * 64 * 4, static_cast<char>('a' + e)));
      EXPECT_EQ(up.rows, 64);
      EXPECT_EQ(up.cols, 32);
      EXPECT_EQ(up.source_name, "blk.0.ffn_up_exps.weight");
    }
  }
}

TEST(GgufCheckpoint, OldMixtralFilesHaveATensorForEachExpert) {
  TinyGguf file("llama");
  file.make_moe();
  file.remove("blk.0.ffn_up_exps.weight");
  for (int e = 0; e < 4; ++e) {
    file.tensor("blk.0.ffn_up." + std::to_string(e) + ".weight", {32, 64}, 0,
                std::string(32 * 64 * 4, static_cast<char>('a' + e)));
  }
  const Checkpoint checkpoint = opened(file);
  EXPECT_EQ(file.at(checkpoint.tensors.at("layers.0.experts.2.up").data)[0], 'c');
  file.remove("blk.0.ffn_up.2.weight");
  expect_refused(file, "tensor blk.0.ffn_up_exps.weight is missing");
}

// An NVFP4 block is 36 bytes for 64 numbers.
TEST(GgufCheckpoint, Nvfp4HasAFactorBesideTheTensor) {
  TinyGguf file("llama");
  file.make_moe();
  file.tensor("blk.0.ffn_down_exps.weight", {64, 32, 4}, 40, std::string(32 * 4 * 36, '\0'));
  file.f32("blk.0.ffn_down_exps.scale", {4}, {0.5F, 0.25F, 2.0F, 1.0F});
  Checkpoint checkpoint = opened(file);
  EXPECT_EQ(checkpoint.tensors.at("layers.0.experts.0.down").scale, 0.5F);
  EXPECT_EQ(checkpoint.tensors.at("layers.0.experts.2.down").scale, 2.0F);
  EXPECT_EQ(checkpoint.tensors.at("layers.0.experts.2.up").scale, 1.0F);
  EXPECT_TRUE(checkpoint.notes.empty()) << "a scale that is used is not reported";

  file.f32("blk.0.ffn_down_exps.scale", {1}, {0.125F});
  checkpoint = opened(file);
  EXPECT_EQ(checkpoint.tensors.at("layers.0.experts.3.down").scale, 0.125F);

  file.f32("blk.0.ffn_down_exps.scale", {3});
  expect_refused(file, "tensor blk.0.ffn_down_exps.scale has 3 numbers, expected 4");
  file.f32("blk.0.ffn_down_exps.scale", {1}, {std::numeric_limits<float>::infinity()});
  expect_refused(file, "tensor blk.0.ffn_down_exps.scale holds inf");
}

TEST(GgufCheckpoint, MetadataThatContradictsTheTensors) {
  struct {
    const char* key;
    uint32_t value;
    const char* expected;
  } cases[] = {
      {"embedding_length", 64,
       "tensor token_embd.weight has shape [32, 8], but the metadata makes it [64, 8]"},
      {"vocab_size", 9,
       "tensor token_embd.weight has shape [32, 8], but the metadata makes it [32, 9]"},
      {"feed_forward_length", 32, "tensor blk.0.ffn_gate.weight has shape [32, 64], but"},
      {"block_count", 2, "tensor blk.1.attn_norm.weight is missing"},
      {"block_count", 65536, "metadata \"llama.block_count\" is 65536, expected"},
      {"attention.head_count", 3, "the count of rotary dimensions"},
      {"attention.head_count_kv", 2,
       "tensor blk.0.attn_k.weight has shape [32, 16], but the metadata makes it [32, 32]"},
      {"attention.head_count_kv", 3, "the count of kv heads is 3"},
      {"attention.value_length", 8, "\"llama.attention.value_length\" is 8, expected 16"},
      {"rope.dimension_count", 18, "\"llama.rope.dimension_count\" is 18"},
      {"rope.dimension_count", 7, "rotary dimensions is 7, expected an even number"},
      {"context_length", 0, "\"llama.context_length\" is 0"},
      {"expert_count", 4, "\"llama.expert_used_count\" is missing"},
  };
  for (const auto& bad : cases) {
    TinyGguf file("llama");
    file.number(bad.key, bad.value);
    if (std::string(bad.key) == "attention.head_count") file.number("attention.key_length", 1);
    expect_refused(file, bad.expected);
  }
  for (const char* required :
       {"embedding_length", "context_length", "block_count", "attention.head_count"}) {
    TinyGguf file("llama");
    file.unset(required);
    expect_refused(file, std::string("metadata \"llama.") + required + "\" is missing");
  }
}

TEST(GgufCheckpoint, TensorsThatCannotBeUsed) {
  TinyGguf missing("llama");
  missing.remove("blk.0.attn_v.weight");
  expect_refused(missing, "tensor blk.0.attn_v.weight is missing");

  TinyGguf grid("llama");
  grid.number("embedding_length", 256);
  grid.number("attention.head_count", 16);
  grid.tensor("token_embd.weight", {256, 8}, 16, std::string(8 * 66, '\0'));
  expect_refused(grid,
                 "tensor token_embd.weight is in format iq2_xxs, which is not supported; "
                 "formats that are: f32, f16, q4_0");

  TinyGguf norm("llama");
  norm.tensor("output_norm.weight", {32}, 8, std::string(34, '\0'));
  expect_refused(norm, "tensor output_norm.weight is in format q8_0, expected f32, f16 or bf16");

  TinyGguf deeper("llama");
  deeper.f32("blk.1.attn_norm.weight", {32});
  expect_refused(deeper, "tensor blk.1.attn_norm.weight is of layer 1, but the metadata says");
}

TEST(GgufCheckpointBc23, ANeededTensorOfNoRowsIsRefused) {
  TinyGguf file("llama");
  file.f32("output.weight", {32, 0});
  expect_refused(file, "tensor output.weight has shape [32, 0], but the metadata makes it [32, 8]");
}

TEST(GgufCheckpointBc25, AnUnknownArchitectureIsNamed) {
  const auto checkpoint = TinyGguf("foomoe").open();
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(checkpoint.error().message,
            "tiny.gguf: architecture \"foomoe\" is not supported; GGUF architectures that are: "
            "llama, qwen2, qwen3, qwen3moe, glm4moe");
  TinyGguf none("llama");
  none.unset("general.architecture");
  expect_refused(none, "metadata \"general.architecture\" is missing");
  TinyGguf number("llama");
  number.set("general.architecture", gguf_key("general.architecture", 7u));
  expect_refused(number, "metadata \"general.architecture\" is 7, expected a string");
}

TEST(GgufCheckpointBc30, ExtraTensorsAreReportedOnceForEachKind) {
  TinyGguf file("llama");
  file.f32("v.patch_embd.weight", {4});
  file.f32("v.blk.0.attn_q.weight", {4});
  file.f32("blk.0.attn_q.input_scale", {1});
  file.tensor("blk.0.odd.weight", {256}, 16, std::string(66, '\0'));
  EXPECT_THAT(opened(file).notes,
              testing::UnorderedElementsAre(
                  "2 tensors of the vision tower are not used: v.blk.0.attn_q.weight, ...",
                  "1 tensor with scales of activations is not used: blk.0.attn_q.input_scale",
                  "1 tensor that this architecture does not have is not used: blk.0.odd.weight"));
}

TEST(GgufCheckpoint, RopeTypes) {
  TinyGguf file("llama");
  file.real("rope.freq_base", 5e5F);
  file.text("rope.scaling.type", "linear");
  file.real("rope.scaling.factor", 4.0F);
  RopeSpec expected{.type = RopeType::kLinear,
                    .pairs = RopePairs::kInterleaved,
                    .rotary_dims = 16,
                    .theta = 5e5,
                    .factor = 4.0};
  EXPECT_EQ(opened(file).spec.rope, expected);

  file.unset("rope.scaling.type");
  file.unset("rope.scaling.factor");
  file.real("rope.scale_linear", 4.0F);
  EXPECT_EQ(opened(file).spec.rope, expected) << "the old spelling";

  file.text("rope.scaling.type", "none");
  expected.type = RopeType::kDefault;
  expected.factor = 1.0;
  EXPECT_EQ(opened(file).spec.rope, expected);

  file.text("rope.scaling.type", "yarn");
  file.real("rope.scaling.factor", 8.0F);
  file.number("rope.scaling.original_context_length", 64);
  file.real("rope.scaling.yarn_beta_fast", 24.0F);
  expected.type = RopeType::kYarn;
  expected.factor = 8.0;
  expected.original_context = 64;
  expected.beta_fast = 24.0;
  EXPECT_EQ(opened(file).spec.rope, expected);
  file.real("rope.scaling.attn_factor", 0.5F);
  EXPECT_DOUBLE_EQ(opened(file).spec.rope.attention_factor.value(), 0.5 * (1 + 0.1 * std::log(8.0)))
      << "ggml multiplies its own factor in";

  file.text("rope.scaling.type", "longrope");
  expect_refused(file,
                 "rope type \"longrope\" is not supported; GGUF rope types that are: none, "
                 "linear, yarn");
}

TEST(GgufCheckpoint, RopeDivisorsMustFit) {
  TinyGguf file("llama");
  file.f32("rope_freqs.weight", {8}, {1, 1, 1, 1, 1, 1, 1, 8});
  EXPECT_EQ(opened(file).spec.rope.freq_divisors.back(), 8.0F);
  file.f32("rope_freqs.weight", {7}, {1, 1, 1, 1, 1, 1, 1});
  expect_refused(file, "rope freq_divisors has 7 numbers, expected 8");
  file.f32("rope_freqs.weight", {8});
  expect_refused(file, "rope freq_divisors holds 0");
}

TEST(GgufCheckpoint, PartsThatTensorsDecide) {
  TinyGguf file("llama");
  EXPECT_FALSE(opened(file).spec.tied_head);
  file.remove("output.weight");
  file.f32("blk.0.attn_q.bias", {32});
  file.f32("blk.0.attn_k.bias", {16});
  file.f32("blk.0.attn_v.bias", {16});
  file.f32("blk.0.attn_output.bias", {32});
  const Checkpoint checkpoint = opened(file);
  EXPECT_TRUE(checkpoint.spec.tied_head);
  EXPECT_TRUE(checkpoint.spec.qkv_bias);
  EXPECT_TRUE(checkpoint.spec.o_bias);
  EXPECT_FALSE(checkpoint.spec.mlp_bias);
  EXPECT_FALSE(checkpoint.tensors.contains("head"));
  EXPECT_EQ(checkpoint.tensors.at("layers.0.v_bias").cols, 16);
  file.remove("blk.0.attn_k.bias");
  expect_refused(file, "tensor blk.0.attn_k.bias is missing");

  expect_refused(TinyGguf("qwen2"), "tensor blk.0.attn_q.bias is missing");
  expect_refused(TinyGguf("qwen3"), "tensor blk.0.attn_q_norm.weight is missing");
}

TEST(GgufCheckpoint, NumbersForEachLayerMustBeEqual) {
  const auto list = [](const std::vector<uint32_t>& values) {
    std::string bytes = little_endian(uint32_t{4}) + little_endian<uint64_t>(values.size());
    for (const uint32_t value : values) bytes += little_endian(value);
    return gguf_key("llama.feed_forward_length", 9, bytes);
  };
  TinyGguf file("llama");
  file.set("feed_forward_length", list({64, 64}));
  EXPECT_EQ(opened(file).spec.ffn_dim, 64);
  file.set("feed_forward_length", list({64, 32}));
  expect_refused(file, "metadata \"llama.feed_forward_length\" differs between layers");
}

// A dense layer, a mixture with a shared expert, and a prediction layer that block_count includes.
TEST(GgufCheckpoint, Glm4Moe) {
  TinyGguf file("glm4moe");
  file.number("block_count", 3);
  file.number("nextn_predict_layers", 1);
  file.number("leading_dense_block_count", 1);
  file.number("rope.dimension_count", 8);
  file.number("expert_count", 4);
  file.number("expert_used_count", 2);
  file.number("expert_feed_forward_length", 16);
  file.number("expert_shared_count", 2);
  file.real("expert_weights_scale", 2.5F);
  file.set("norm", gguf_key("glm4moe.expert_weights_norm", 7, std::string(1, '\1')));
  file.remove("blk.0.ffn_norm.weight");
  for (const char* layer : {"blk.0.", "blk.1."}) {
    file.f32(std::string(layer) + "post_attention_norm.weight", {32});
  }
  file.f32("blk.1.attn_norm.weight", {32});
  file.f32("blk.1.attn_q.weight", {32, 32});
  file.f32("blk.1.attn_k.weight", {32, 16});
  file.f32("blk.1.attn_v.weight", {32, 16});
  file.f32("blk.1.attn_output.weight", {32, 32});
  file.f32("blk.1.ffn_gate_inp.weight", {32, 4});
  file.f32("blk.1.exp_probs_b.bias", {4});
  file.f32("blk.1.ffn_gate_exps.weight", {32, 16, 4});
  file.f32("blk.1.ffn_up_exps.weight", {32, 16, 4});
  file.f32("blk.1.ffn_down_exps.weight", {16, 32, 4});
  file.f32("blk.1.ffn_gate_shexp.weight", {32, 32});
  file.f32("blk.1.ffn_up_shexp.weight", {32, 32});
  file.f32("blk.1.ffn_down_shexp.weight", {32, 32});
  file.f32("blk.2.nextn.eh_proj.weight", {64, 32});
  file.f32("blk.2.attn_q.weight", {32, 32});

  const Checkpoint checkpoint = opened(file);
  const ModelSpec& spec = checkpoint.spec;
  EXPECT_EQ(spec.family, Family::kGlm4Moe);
  EXPECT_EQ(spec.layers, (std::vector<LayerSpec>{{.is_moe = false}, {.is_moe = true}}));
  EXPECT_EQ(spec.rope.rotary_dims, 8);
  EXPECT_EQ(spec.rope.pairs, RopePairs::kHalves);
  EXPECT_EQ(spec.moe, (MoeSpec{.n_experts = 4,
                               .top_k = 2,
                               .expert_dim = 16,
                               .shared_dim = 32,
                               .router = {.score = RouterScore::kSigmoid,
                                          .has_bias = true,
                                          .renormalize = true,
                                          .scale = 2.5}}));
  EXPECT_THAT(checkpoint.notes,
              ElementsAre("2 tensors of the multi-token prediction layers are not used: "
                          "blk.2.attn_q.weight, ..."));
  EXPECT_EQ(checkpoint.tensors.at("layers.1.router_bias").cols, 4);

  file.number("expert_gating_func", 1);
  EXPECT_EQ(opened(file).spec.moe.router.score, RouterScore::kSoftmax);
  file.number("expert_gating_func", 3);
  expect_refused(file, "\"glm4moe.expert_gating_func\" is 3, expected 1 (softmax) or 2 (sigmoid)");
}

std::string token_list(const std::vector<std::string>& tokens) {
  std::string bytes = little_endian(uint32_t{8}) + little_endian<uint64_t>(tokens.size());
  for (const std::string& token : tokens) bytes += gguf_string(token);
  return gguf_key("tokenizer.ggml.tokens", 9, bytes);
}

TEST(GgufCheckpoint, TokenizerAndEnds) {
  TinyGguf file("llama");
  file.set("model", gguf_key("tokenizer.ggml.model", "gpt2"));
  file.set("tokens", token_list({"<s>", "</s>", "<|im_end|>", "a", "b", "c", "d", "e"}));
  file.set("bos", gguf_key("tokenizer.ggml.bos_token_id", 0u));
  file.set("eos", gguf_key("tokenizer.ggml.eos_token_id", 1u));
  file.set("eot", gguf_key("tokenizer.ggml.eot_token_id", 2u));
  file.set("template", gguf_key("tokenizer.chat_template", "{{ messages }}"));
  Checkpoint checkpoint = opened(file);
  EXPECT_EQ(checkpoint.tokenizer.ggml["model"], "gpt2");
  EXPECT_EQ(checkpoint.tokenizer.ggml["tokens"][2], "<|im_end|>");
  EXPECT_FALSE(checkpoint.tokenizer.ggml.contains("chat_template"));
  EXPECT_EQ(checkpoint.tokenizer.chat_template, "{{ messages }}");
  EXPECT_EQ(checkpoint.tokenizer.bos_token, "<s>");
  EXPECT_EQ(checkpoint.tokenizer.eos_token, "</s>");
  EXPECT_THAT(checkpoint.generation.eos_ids, ElementsAre(1, 2));

  file.set("eot", gguf_key("tokenizer.ggml.eot_token_id", 8u));
  checkpoint = opened(file);
  EXPECT_THAT(checkpoint.generation.eos_ids, ElementsAre(1));
  EXPECT_THAT(checkpoint.notes, ElementsAre("metadata \"tokenizer.ggml.eot_token_id\" is ignored: "
                                            "8 is outside the vocabulary of 8"));

  file.set("bos", gguf_key("tokenizer.ggml.bos_token_id", 99u));
  expect_refused(file, "metadata \"tokenizer.ggml.bos_token_id\" is 99, but there are 8 tokens");
  file.set("bos", gguf_key("tokenizer.ggml.bos_token_id", "<s>"));
  expect_refused(file, "metadata \"tokenizer.ggml.bos_token_id\" is \"<s>\"");
}

TEST(GgufCheckpoint, AnyPartOfASplitModelOpensAll) {
  const TempFolder folder;
  TinyGguf whole("llama");
  GgufFileParts second;
  second.keys = {gguf_key("split.no", 2, little_endian(uint16_t{1})),
                 gguf_key("split.count", 2, little_endian(uint16_t{2})),
                 gguf_key("split.tensors.count", 5, little_endian(int32_t{12}))};
  second.add("output.weight", {32, 8}, 0, std::string(32 * 8 * 4, 'o'));
  whole.remove("output.weight");
  whole.set("split.no", gguf_key("split.no", 2, little_endian(uint16_t{0})));
  whole.set("split.count", gguf_key("split.count", 2, little_endian(uint16_t{2})));
  whole.set("split.tensors.count", gguf_key("split.tensors.count", 5, little_endian(int32_t{12})));
  folder.write("m-00001-of-00002.gguf", whole.bytes());
  const auto path = folder.write("m-00002-of-00002.gguf", second.bytes());

  const auto checkpoint = open_checkpoint(path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->name, "m");
  ASSERT_EQ(checkpoint->files.size(), 2u);
  const StoredTensor& head = checkpoint->tensors.at("head");
  EXPECT_EQ(head.data.file, 1u);
  EXPECT_EQ(read_bytes(checkpoint->files[1]).substr(head.data.offset, 1), "o");
}

}  // namespace
}  // namespace penstock
