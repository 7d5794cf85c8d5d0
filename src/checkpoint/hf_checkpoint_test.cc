#include "checkpoint/hf_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "checkpoint/test_files.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A golden model whose tensors and config a test changes before it is opened.
class ChangedGolden {
 public:
  explicit ChangedGolden(const std::string& name)
      : path_(folder_.copy_golden(name)),
        weights(SafetensorsFile::load(path_ / "model.safetensors")),
        config(Json::parse(read_bytes(path_ / "config.json"))) {}

  Result<Checkpoint> open() const {
    weights.save(path_ / "model.safetensors");
    std::ofstream(path_ / "config.json") << config.dump();
    return open_checkpoint(path_);
  }
  void expect_refused(const std::string& expected) const {
    const auto checkpoint = open();
    ASSERT_FALSE(checkpoint) << expected;
    EXPECT_THAT(checkpoint.error().message, HasSubstr(expected));
    EXPECT_THAT(checkpoint.error().message, HasSubstr(path_.string()));
  }
  SafetensorsFile::Tensor& tensor(const std::string& name) { return weights.tensors.at(name); }
  void rename(const std::string& from, const std::string& to) {
    auto node = weights.tensors.extract(from);
    node.key() = to;
    weights.tensors.insert(std::move(node));
  }

 private:
  TempFolder folder_;
  std::filesystem::path path_;

 public:
  SafetensorsFile weights;
  Json config;
};

Checkpoint opened(const std::filesystem::path& path) {
  auto checkpoint = open_checkpoint(path);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  return checkpoint ? *std::move(checkpoint) : Checkpoint{};
}

std::string at(const Checkpoint& checkpoint, const Extent& extent) {
  return read_bytes(checkpoint.files[extent.file]).substr(extent.offset, extent.bytes);
}

TEST(HfCheckpoint, EveryGoldenOpens) {
  int n_opened = 0;
  for (const char* kind : {"models", "quantized"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kGoldenFolder / kind)) {
      const auto checkpoint = open_checkpoint(entry.path());
      ASSERT_TRUE(checkpoint) << checkpoint.error().message;
      EXPECT_EQ(checkpoint->kind, SourceKind::kHuggingFace);
      EXPECT_EQ(checkpoint->name, entry.path().filename());
      EXPECT_EQ(checkpoint->generation.eos_ids.front(), 2);
      EXPECT_TRUE(checkpoint->tokenizer.json.empty()) << "there is none, and that is no error";
      ++n_opened;
    }
  }
  EXPECT_EQ(n_opened, 7 + 5);
}

TEST(HfCheckpoint, PlainTensorsAreWhereTheFileHasThem) {
  for (const auto& [model, format] :
       {std::pair("models/llama", Format::kBF16), std::pair("models/qwen2", Format::kF16),
        std::pair("models/qwen3", Format::kF32)}) {
    const Checkpoint checkpoint = opened(kGoldenFolder / model);
    const auto file = SafetensorsFile::load(kGoldenFolder / model / "model.safetensors");
    size_t n_bytes = 0;
    for (const auto& [name, stored] : checkpoint.tensors) {
      EXPECT_EQ(stored.format, format);
      EXPECT_EQ(at(checkpoint, stored.data), file.tensors.at(stored.source_name).data);
      n_bytes += stored.data.bytes;
    }
    size_t n_file_bytes = 0;
    for (const auto& [name, tensor] : file.tensors) n_file_bytes += tensor.data.size();
    EXPECT_EQ(n_bytes, n_file_bytes) << "every tensor of the file has its place";
  }
  const Checkpoint llama = opened(kGoldenFolder / "models/llama");
  EXPECT_EQ(llama.tensors.at("layers.1.ffn_norm").source_name,
            "model.layers.1.post_attention_layernorm.weight");
  EXPECT_EQ(llama.tensors.at("layers.1.down").rows, 64);
  EXPECT_EQ(llama.tensors.at("layers.1.down").cols, 96);
  EXPECT_EQ(llama.tensors.at("final_norm").rows, 1);
}

TEST(HfCheckpoint, ExpertsHaveTheirFamiliesNames) {
  const Checkpoint mixtral = opened(kGoldenFolder / "models/mixtral");
  const auto source = [](const Checkpoint& checkpoint, const char* name) {
    return checkpoint.tensors.at(name).source_name;
  };
  const std::string layer = "model.layers.1.block_sparse_moe.";
  EXPECT_EQ(source(mixtral, "layers.1.experts.3.gate"), layer + "experts.3.w1.weight");
  EXPECT_EQ(source(mixtral, "layers.1.experts.3.up"), layer + "experts.3.w3.weight");
  EXPECT_EQ(source(mixtral, "layers.1.experts.3.down"), layer + "experts.3.w2.weight");
  EXPECT_EQ(source(mixtral, "layers.1.router"), layer + "gate.weight");
  const Checkpoint glm = opened(kGoldenFolder / "models/glm4_moe");
  EXPECT_EQ(source(glm, "layers.2.experts.5.down"),
            "model.layers.2.mlp.experts.5.down_proj.weight");
  EXPECT_EQ(source(glm, "layers.2.router_bias"), "model.layers.2.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(glm.tensors.at("layers.2.router_bias").format, Format::kF32);
  EXPECT_EQ(source(glm, "layers.1.shared.up"), "model.layers.1.mlp.shared_experts.up_proj.weight");
  EXPECT_TRUE(glm.tensors.contains("layers.0.gate")) << "the dense layer";
}

TEST(HfCheckpoint, ShardsAreTheSameModel) {
  const Checkpoint one = opened(kGoldenFolder / "models/qwen3");
  const Checkpoint three = opened(kGoldenFolder / "models/qwen3_sharded");
  EXPECT_EQ(three.files.size(), 3u);
  EXPECT_EQ(three.spec, one.spec);
  ASSERT_EQ(three.tensors.size(), one.tensors.size());
  for (const auto& [name, stored] : three.tensors) {
    EXPECT_EQ(at(three, stored.data), at(one, one.tensors.at(name).data)) << name;
  }
}

TEST(HfCheckpoint, Nvfp4OfModelOptMultiplies) {
  const std::string folder = "quantized/qwen3_moe-nvfp4-modelopt";
  const Checkpoint checkpoint = opened(kGoldenFolder / folder);
  const auto file = SafetensorsFile::load(kGoldenFolder / folder / "model.safetensors");
  const StoredTensor& up = checkpoint.tensors.at("layers.1.experts.2.up");
  const std::string module = "model.layers.1.mlp.experts.2.up_proj.";
  EXPECT_EQ(up.format, Format::kNvfp4);
  EXPECT_EQ(up.rows, 144);
  EXPECT_EQ(up.cols, 32);
  EXPECT_EQ(at(checkpoint, up.data), file.tensors.at(module + "weight").data);
  EXPECT_EQ(at(checkpoint, up.scales), file.tensors.at(module + "weight_scale").data);
  float factor = 0;
  std::memcpy(&factor, file.tensors.at(module + "weight_scale_2").data.data(), 4);
  EXPECT_EQ(up.scale, factor);
  EXPECT_EQ(checkpoint.tensors.at("layers.1.q").format, Format::kBF16) << "mixed storage";
  EXPECT_THAT(checkpoint.notes, ElementsAre(HasSubstr("24 tensors with scales of activations")));
}

TEST(HfCheckpoint, Nvfp4OfCompressedTensorsDivides) {
  const std::string folder = "quantized/mixtral-nvfp4-compressed-tensors";
  const Checkpoint checkpoint = opened(kGoldenFolder / folder);
  const auto file = SafetensorsFile::load(kGoldenFolder / folder / "model.safetensors");
  const StoredTensor& q = checkpoint.tensors.at("layers.0.q");
  EXPECT_EQ(q.format, Format::kNvfp4);
  EXPECT_EQ(q.source_name, "model.layers.0.self_attn.q_proj.weight_packed");
  float divisor = 0;
  std::memcpy(&divisor,
              file.tensors.at("model.layers.0.self_attn.q_proj.weight_global_scale").data.data(),
              4);
  EXPECT_FLOAT_EQ(q.scale * divisor, 1.0F);
}

TEST(HfCheckpoint, Fp8InBlocks) {
  const Checkpoint checkpoint = opened(kGoldenFolder / "quantized/qwen3_moe-fp8");
  const StoredTensor& down = checkpoint.tensors.at("layers.0.experts.0.down");
  EXPECT_EQ(down.format, Format::kFp8Block);
  EXPECT_EQ(down.block_rows, 128u);
  EXPECT_EQ(down.group_cols, 128u);
  EXPECT_EQ(down.scale_format, ScaleFormat::kF32);
  EXPECT_EQ(down.scales.bytes, 2u * 4) << "144 columns are two blocks";
  EXPECT_EQ(checkpoint.tensors.at("layers.0.k").format, Format::kFp8Block);
  EXPECT_THAT(checkpoint.notes, IsEmpty());
}

// Other shapes and types of FP8's scales, and its other name for them.
TEST(HfCheckpoint, Fp8ByTheShapeOfItsScales) {
  ChangedGolden golden("quantized/qwen3_moe-fp8");
  const std::string module = "model.layers.0.mlp.experts.0.up_proj.";  // 144 x 32
  golden.rename(module + "weight_scale_inv", module + "weight_scale");
  const auto with_scale = [&](const char* dtype, std::vector<uint64_t> shape, std::string data) {
    golden.tensor(module + "weight_scale") = {dtype, std::move(shape), std::move(data)};
    auto checkpoint = golden.open();
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    return checkpoint ? checkpoint->tensors.at("layers.0.experts.0.up") : StoredTensor{};
  };
  const std::string half_in_bf16 = {'\0', '\x3f'};
  StoredTensor up = with_scale("F32", {}, little_endian(0.25F));
  EXPECT_EQ(up.format, Format::kFp8Tensor);
  EXPECT_EQ(up.scale, 0.25F);
  EXPECT_EQ(up.scales.bytes, 0u);
  EXPECT_EQ(with_scale("BF16", {1}, half_in_bf16).scale, 0.5F);
  EXPECT_EQ(with_scale("F16", {1, 1}, {'\0', '\x38'}).scale, 0.5F);
  up = with_scale("F32", {144, 1}, std::string(144 * 4, '\0'));
  EXPECT_EQ(up.format, Format::kFp8Channel);
  EXPECT_EQ(up.scale, 1.0F);
  EXPECT_EQ(with_scale("BF16", {144}, std::string(144 * 2, '\0')).scale_format, ScaleFormat::kBF16);
  up = with_scale("F8_E8M0", {2, 1}, "\x7f\x7f");
  EXPECT_EQ(up.format, Format::kFp8Block);
  EXPECT_EQ(up.scale_format, ScaleFormat::kE8M0);

  golden.config["quantization_config"]["weight_block_size"] = {16, 8};
  for (auto& [name, tensor] : golden.weights.tensors) {
    if (!name.ends_with("weight_scale_inv") && name != module + "weight_scale") continue;
    const auto& weight = golden.tensor(name.substr(0, name.find(".weight")) + ".weight");
    tensor = {"F32", {(weight.shape[0] + 15) / 16, (weight.shape[1] + 7) / 8}, ""};
    tensor.data.resize(tensor.shape[0] * tensor.shape[1] * 4);
  }
  const auto checkpoint = golden.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors.at("layers.0.experts.0.up").block_rows, 16u);
  EXPECT_EQ(checkpoint->tensors.at("layers.0.experts.0.up").scales.bytes, 9u * 4 * 4);
}

TEST(HfCheckpoint, Mxfp4OfCompressedTensors) {
  ChangedGolden golden("quantized/mixtral-nvfp4-compressed-tensors");
  const std::string module = "model.layers.0.self_attn.o_proj.";  // 64 x 64
  golden.weights.tensors.erase(module + "weight_global_scale");
  for (const char* dtype : {"U8", "F8_E8M0"}) {
    golden.tensor(module + "weight_scale") = {dtype, {64, 2}, std::string(64 * 2, '\x7f')};
    const auto checkpoint = golden.open();
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->tensors.at("layers.0.o").format, Format::kMxfp4);
    EXPECT_EQ(checkpoint->tensors.at("layers.0.o").scale, 1.0F);
  }
}

TEST(HfCheckpoint, GptqAndAwq) {
  const Checkpoint gptq = opened(kGoldenFolder / "quantized/mixtral-gptq");
  const StoredTensor& g = gptq.tensors.at("layers.0.k");  // 32 x 64
  EXPECT_EQ(g.format, Format::kGptq4);
  EXPECT_EQ(g.rows, 32);
  EXPECT_EQ(g.cols, 64);
  EXPECT_EQ(g.group_cols, 32u);
  EXPECT_TRUE(g.zeros_minus_one);
  EXPECT_EQ(g.zeros.bytes, 2u * 4 * 4);
  EXPECT_EQ(g.scales.bytes, 2u * 32 * 2);
  EXPECT_EQ(g.groups.bytes, 0u) << "desc_act is false";
  EXPECT_THAT(gptq.notes, IsEmpty()) << "g_idx is known";
  const Checkpoint awq = opened(kGoldenFolder / "quantized/mixtral-awq");
  const StoredTensor& a = awq.tensors.at("layers.0.experts.1.down");  // 64 x 32
  EXPECT_EQ(a.format, Format::kAwq4);
  EXPECT_EQ(a.rows, 64);
  EXPECT_EQ(a.cols, 32);
  EXPECT_FALSE(a.zeros_minus_one);
  EXPECT_EQ(awq.tensors.at("layers.0.router").format, Format::kBF16);
}

TEST(HfCheckpoint, ActOrderIsCheckedBeforeKernelsTrustIt) {
  ChangedGolden golden("quantized/mixtral-gptq");
  golden.config["quantization_config"]["desc_act"] = true;
  auto checkpoint = golden.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors.at("layers.0.k").groups.bytes, 64u * 4);

  const std::string order = "model.layers.0.self_attn.k_proj.g_idx";
  const std::string good = golden.tensor(order).data;
  for (const int32_t wrong : {2, -1, std::numeric_limits<int32_t>::max()}) {
    golden.tensor(order).data.replace(63 * 4, 4, little_endian(wrong));
    golden.expect_refused("tensor " + order + " of format gptq4 holds group " +
                          std::to_string(wrong) + ", expected 0 to 1");
    golden.tensor(order).data = good;
  }
  golden.weights.tensors.erase(order);
  golden.expect_refused("tensor " + order + " is missing: format gptq4 needs it");
}

TEST(HfCheckpointBc26, AMissingScaleIsNamedWithItsFormat) {
  struct {
    const char* golden;
    const char* tensor;
    const char* format;
  } cases[] = {
      {"quantized/qwen3_moe-nvfp4-modelopt", "model.layers.0.mlp.experts.1.up_proj.weight_scale",
       "nvfp4 (ModelOpt)"},
      {"quantized/qwen3_moe-nvfp4-modelopt", "model.layers.0.mlp.experts.1.up_proj.weight_scale_2",
       "nvfp4 (ModelOpt)"},
      {"quantized/mixtral-nvfp4-compressed-tensors", "model.layers.1.self_attn.q_proj.weight_scale",
       "nvfp4 (compressed-tensors)"},
      {"quantized/mixtral-nvfp4-compressed-tensors",
       "model.layers.1.self_attn.q_proj.weight_global_scale", "nvfp4 (compressed-tensors)"},
      {"quantized/mixtral-gptq", "model.layers.0.block_sparse_moe.experts.0.w2.qzeros", "gptq4"},
      {"quantized/mixtral-gptq", "model.layers.0.block_sparse_moe.experts.0.w2.scales", "gptq4"},
      {"quantized/mixtral-awq", "model.layers.0.self_attn.v_proj.qzeros", "awq4"},
      {"quantized/mixtral-awq", "model.layers.0.self_attn.v_proj.scales", "awq4"},
  };
  for (const auto& bad : cases) {
    ChangedGolden golden(bad.golden);
    ASSERT_EQ(golden.weights.tensors.erase(bad.tensor), 1u) << bad.tensor;
    golden.expect_refused(
        fmt::format("tensor {} is missing: format {} needs it", bad.tensor, bad.format));
  }
  ChangedGolden fp8("quantized/qwen3_moe-fp8");
  fp8.weights.tensors.erase("model.layers.0.self_attn.q_proj.weight_scale_inv");
  fp8.expect_refused(
      "tensor model.layers.0.self_attn.q_proj.weight_scale is missing: format fp8 needs it");
}

TEST(HfCheckpointBc26, PartsOfTheWrongShapeOrTypeAreNamedWithTheirFormat) {
  struct {
    const char* golden;
    const char* tensor;
    SafetensorsFile::Tensor instead;
    const char* expected;
  } cases[] = {
      {"quantized/qwen3_moe-nvfp4-modelopt",
       "model.layers.0.mlp.experts.1.up_proj.weight_scale",
       {"F8_E4M3", {144, 1}, std::string(144, 'x')},
       "of format nvfp4 (ModelOpt) has shape [144, 1], expected [144, 2]"},
      {"quantized/qwen3_moe-nvfp4-modelopt",
       "model.layers.0.mlp.experts.1.up_proj.weight_scale",
       {"U8", {144, 2}, std::string(288, 'x')},
       "of format nvfp4 (ModelOpt) has dtype U8, expected F8_E4M3"},
      {"quantized/qwen3_moe-nvfp4-modelopt",
       "model.layers.0.mlp.experts.1.up_proj.weight",
       {"U8", {144, 32}, std::string(144 * 32, 'x')},
       "of format nvfp4 (ModelOpt) has shape [144, 32], expected [144, 16]"},
      {"quantized/qwen3_moe-nvfp4-modelopt",
       "model.layers.0.mlp.experts.1.up_proj.weight_scale_2",
       {"F32", {2}, std::string(8, '\0')},
       "of format nvfp4 (ModelOpt) has shape [2], expected one number"},
      {"quantized/qwen3_moe-nvfp4-modelopt",
       "model.layers.0.mlp.experts.1.up_proj.weight_scale_2",
       {"I32", {}, std::string(4, '\0')},
       "has dtype I32, expected F32, F16, BF16 or F8_E8M0"},
      {"quantized/qwen3_moe-nvfp4-modelopt",
       "model.layers.0.mlp.experts.1.up_proj.weight_scale_2",
       {"F32", {}, little_endian(std::nanf(""))},
       "holds nan, expected a finite number"},
      {"quantized/mixtral-nvfp4-compressed-tensors",
       "model.layers.1.self_attn.q_proj.weight_global_scale",
       {"F32", {1}, little_endian(0.0F)},
       "of format nvfp4 (compressed-tensors) is 0"},
      {"quantized/mixtral-nvfp4-compressed-tensors",
       "model.layers.1.self_attn.q_proj.weight_packed",
       {"I32", {64, 8}, std::string(64 * 32, 'x')},
       "integers packed by compressed-tensors are not supported"},
      {"quantized/qwen3_moe-fp8",
       "model.layers.0.mlp.experts.0.up_proj.weight_scale_inv",
       {"F32", {3, 1}, std::string(12, '\0')},
       "of format fp8 has shape [3, 1], expected one number, [144] or [2, 1]"},
      {"quantized/qwen3_moe-fp8",
       "model.layers.0.mlp.experts.0.up_proj.weight_scale_inv",
       {"U8", {2, 1}, "xx"},
       "of format fp8 has dtype U8, expected F32, F16, BF16 or F8_E8M0"},
      {"quantized/mixtral-gptq",
       "model.layers.0.self_attn.k_proj.scales",
       {"F16", {1, 32}, std::string(64, '\0')},
       "of format gptq4 has shape [1, 32], expected [2, 32]"},
      {"quantized/mixtral-gptq",
       "model.layers.0.self_attn.k_proj.qweight",
       {"I32", {64, 4}, std::string(64 * 16, '\0')},
       "of format gptq4 has shape [64, 4], expected [8, 32]"},
      {"quantized/mixtral-awq",
       "model.layers.0.self_attn.k_proj.qzeros",
       {"I32", {2, 32}, std::string(256, '\0')},
       "of format awq4 has shape [2, 32], expected [2, 4]"},
  };
  for (const auto& bad : cases) {
    ChangedGolden golden(bad.golden);
    golden.tensor(bad.tensor) = bad.instead;
    golden.expect_refused(std::string("tensor ") + bad.tensor);
    golden.expect_refused(bad.expected);
  }
}

TEST(HfCheckpointBc26, NothingQuantisedIsReadAsIfItWerePlain) {
  ChangedGolden scaled("models/llama");
  scaled.weights.tensors["model.layers.0.self_attn.q_proj.weight_scale"] = {
      "F32", {1}, little_endian(1.0F)};
  scaled.expect_refused(
      "tensor model.layers.0.self_attn.q_proj.weight has dtype BF16 and yet a "
      "scale model.layers.0.self_attn.q_proj.weight_scale");
  ChangedGolden int8("models/llama");
  int8.tensor("model.layers.0.self_attn.q_proj.weight") = {
      "I8", {128, 64}, std::string(128 * 64, 'x')};
  int8.expect_refused("has dtype I8, which is not supported for weights; formats that are: F32");
  ChangedGolden no_method("quantized/mixtral-gptq");
  no_method.config.erase("quantization_config");
  no_method.expect_refused("qweight is GPTQ or AWQ, but \"quant_method\" is \"\"");
  ChangedGolden awq_scaled("quantized/qwen3_moe-nvfp4-modelopt");
  awq_scaled.weights.tensors["model.layers.0.mlp.experts.1.up_proj.pre_quant_scale"] = {
      "F32", {1}, little_endian(1.0F)};
  awq_scaled.expect_refused("NVFP4_AWQ");
}

TEST(HfCheckpointBc20, AnUnknownDtypeIsAnErrorWhereItIsNeeded) {
  ChangedGolden golden("models/llama");
  golden.weights.tensors["model.layers.0.extra"] = {"F128", {1}, std::string(16, 'x')};
  EXPECT_TRUE(golden.open());
  golden.tensor("model.layers.0.self_attn.q_proj.weight") = {"F128", {1}, std::string(16, 'x')};
  golden.expect_refused("tensor model.layers.0.self_attn.q_proj.weight has dtype F128");
}

TEST(HfCheckpointBc23, ANeededTensorOfNoElementsIsRefused) {
  ChangedGolden golden("models/llama");
  golden.tensor("model.norm.weight") = {"BF16", {64, 0}, ""};
  golden.expect_refused(
      "tensor model.norm.weight has shape [64, 0], but config.json makes it [64]");
}

TEST(HfCheckpoint, AConfigThatContradictsTheTensors) {
  struct {
    const char* field;
    Json value;
    const char* expected;
  } cases[] = {
      {"vocab_size", 97,
       "tensor model.embed_tokens.weight has shape [96, 64], but config.json makes it [97, 64]"},
      {"hidden_size", 32, "but config.json makes it [96, 32]"},
      {"intermediate_size", 64,
       "tensor model.layers.0.mlp.gate_proj.weight has shape [96, 64], but config.json makes it "
       "[64, 64]"},
      {"num_attention_heads", 4,
       "tensor model.layers.0.self_attn.q_proj.weight has shape [128, 64], but config.json makes "
       "it [64, 64]"},
      {"num_key_value_heads", 4, "self_attn.k_proj.weight has shape [32, 64]"},
      {"num_hidden_layers", 3, "tensor model.layers.2.input_layernorm.weight is missing"},
      {"num_hidden_layers", 1, "is of layer 1, but config.json says there are 1 layers"},
      {"attention_bias", true, "tensor model.layers.0.self_attn.q_proj.bias is missing"},
  };
  for (const auto& bad : cases) {
    ChangedGolden golden("models/llama");
    golden.config[bad.field] = bad.value;
    golden.expect_refused(bad.expected);
  }
  ChangedGolden experts("models/mixtral");
  experts.config["num_local_experts"] = 2;
  experts.expect_refused(
      "block_sparse_moe.gate.weight has shape [4, 64], but config.json makes it "
      "[2, 64]");
  ChangedGolden untied("models/qwen3");
  untied.config["tie_word_embeddings"] = false;
  untied.expect_refused("tensor lm_head.weight is missing");
}

TEST(HfCheckpointBc30, ExtraTensorsAreReportedOnceForEachKind) {
  ChangedGolden golden("models/glm4_moe");
  const SafetensorsFile::Tensor any = {"F32", {1}, little_endian(1.0F)};
  for (const char* name :
       {"model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.layers.1.self_attn.rotary_emb.inv_freq", "model.layers.3.eh_proj.weight",
        "model.layers.3.enorm.weight", "model.layers.0.self_attn.o_proj.bias",
        "model.layers.0.self_attn.k_proj.k_scale", "model.layers.0.self_attn.q_proj.input_scale",
        "visual.patch_embed.weight", "model.layers.0.self_attn.sinks"}) {
    golden.weights.tensors[name] = any;
  }
  const auto checkpoint = golden.open();
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->notes,
              testing::UnorderedElementsAre(
                  HasSubstr("2 tensors with rotary frequencies are not used"),
                  HasSubstr("2 tensors of the multi-token prediction layers are not used"),
                  HasSubstr("1 tensor with biases that config.json does not ask for is not used"),
                  HasSubstr("1 tensor with scales of the KV cache is not used"),
                  HasSubstr("1 tensor with scales of activations is not used"),
                  HasSubstr("1 tensor outside the language model is not used: visual."),
                  HasSubstr("1 tensor that this family does not have is not used")));
}

TEST(HfCheckpoint, ATiedHeadThatIsThereIsReported) {
  ChangedGolden golden("models/qwen3");
  golden.weights.tensors["lm_head.weight"] = golden.tensor("model.embed_tokens.weight");
  const auto checkpoint = golden.open();
  ASSERT_TRUE(checkpoint);
  EXPECT_FALSE(checkpoint->tensors.contains("head"));
  EXPECT_THAT(checkpoint->notes, ElementsAre(AllOf(HasSubstr("tied"), HasSubstr("lm_head"))));
}

TEST(HfCheckpoint, TheLanguagePartOfAWrapper) {
  for (const auto& [prefix, head] :
       {std::pair<std::string, std::string>("model.language_model.", "lm_head.weight"),
        std::pair<std::string, std::string>("language_model.model.",
                                            "language_model.lm_head.weight")}) {
    ChangedGolden golden("models/llama");
    SafetensorsFile renamed;
    for (const auto& [name, tensor] : golden.weights.tensors) {
      renamed.tensors[name.starts_with("model.") ? prefix + name.substr(6) : head] = tensor;
    }
    renamed.tensors["vision_tower.weight"] = {"U8", {1}, "x"};
    golden.weights = renamed;
    Json text = golden.config;
    text.erase("architectures");
    golden.config = {{"architectures", {"LlavaForConditionalGeneration"}},
                     {"model_type", "llava"},
                     {"text_config", text}};
    const auto checkpoint = golden.open();
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->tensors.at("head").source_name, head);
    EXPECT_EQ(checkpoint->tensors.at("layers.0.q").source_name,
              prefix + "layers.0.self_attn.q_proj.weight");
    EXPECT_THAT(checkpoint->notes, ElementsAre(HasSubstr("outside the language model")));
  }
}

TEST(HfCheckpoint, ConfigsThatAreNone) {
  for (const char* text : {"", "{", "[]", "null", "\xff"}) {
    const TempFolder folder;
    const auto config = folder.write("config.json", text);
    const auto checkpoint = open_checkpoint(folder.path());
    ASSERT_FALSE(checkpoint) << text;
    EXPECT_THAT(checkpoint.error().message, HasSubstr(config.string())) << text;
  }
}

TEST(OpenCheckpoint, SaysWhatItLookedFor) {
  const TempFolder folder;
  auto checkpoint = open_checkpoint(folder.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(checkpoint.error().message,
              HasSubstr("expected a .gguf file, or a folder with penstock.json or config.json"));
  checkpoint = open_checkpoint(folder.path() / "missing");
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().message,
            "there is no file or folder " + (folder.path() / "missing").string());
  EXPECT_FALSE(open_checkpoint(folder.path() / "missing.gguf"));
  EXPECT_FALSE(open_checkpoint(folder.write("model.safetensors", "x")));
  EXPECT_FALSE(open_checkpoint(""));
}

TEST(OpenCheckpoint, TheNameIsTheFoldersHoweverItIsWritten) {
  EXPECT_EQ(opened((kGoldenFolder / "models/llama").string() + "/").name, "llama");
  EXPECT_EQ(opened(kGoldenFolder / "models/llama/../llama/.").name, "llama");
}

}  // namespace
}  // namespace penstock
