#include "memory/plan/demands.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/units.h"
#include "memory/plan/plan_cases_test.h"

namespace penstock {
namespace {

Checkpoint golden(const std::string& name) {
  return open_checkpoint(PENSTOCK_SOURCE_DIR "/tests/golden/" + name).value();
}

// Whatever a checkpoint's files hold for the model is in one of the sums.
TEST(DemandsOfACheckpoint, EveryTensorIsCountedOnce) {
  for (const char* name : {"models/llama", "models/qwen3_moe", "models/mixtral", "models/glm4_moe",
                           "quantized/qwen3_moe-nvfp4-modelopt", "quantized/qwen3_moe-fp8",
                           "gguf/mixtral-mxfp4.gguf", "gguf/llama-k-mix.gguf"}) {
    SCOPED_TRACE(name);
    const Checkpoint checkpoint = golden(name);
    const auto demands = demands_of(checkpoint, KvFormat::kBF16);
    ASSERT_TRUE(demands) << demands.error().message;
    uint64_t bytes = 0;
    for (const auto& [tensor_name, tensor] : checkpoint.tensors) {
      bytes += tensor.data.bytes + tensor.scales.bytes + tensor.zeros.bytes + tensor.groups.bytes;
    }
    EXPECT_EQ(demands->bytes(), bytes);
    EXPECT_EQ(demands->n_layers(), checkpoint.spec.n_layers());
    EXPECT_GT(demands->workspace_bytes, 0u);
    EXPECT_EQ(demands->embed_bytes > 0, !checkpoint.spec.tied_head);
  }
}

TEST(DemandsOfACheckpoint, BanksHaveTheirShapeAndFormat) {
  const Checkpoint checkpoint = golden("quantized/qwen3_moe-nvfp4-modelopt");
  const auto demands = demands_of(checkpoint, KvFormat::kF32);
  ASSERT_TRUE(demands);
  ASSERT_EQ(demands->layers.size(), 1u);
  const BankDemand& bank = demands->layers[0];
  const MoeSpec& moe = checkpoint.spec.moe;
  EXPECT_EQ(bank.n_layers, checkpoint.spec.n_layers());
  EXPECT_EQ(bank.n_experts, moe.n_experts);
  EXPECT_EQ(bank.top_k, moe.top_k);
  EXPECT_EQ(bank.format, "nvfp4");
  const int64_t params = 3 * checkpoint.spec.hidden_dim * moe.expert_dim;
  EXPECT_EQ(bank.expert_params, params);
  // Half a byte a weight, and a scale for each 16 of a row.
  EXPECT_EQ(bank.expert_bytes, static_cast<uint64_t>(params / 2 + params / 16));
  EXPECT_EQ(demands->kv_bytes_a_token,
            static_cast<uint64_t>(checkpoint.spec.n_layers() * 2 * checkpoint.spec.n_kv_heads *
                                  checkpoint.spec.head_dim * 4));
  EXPECT_EQ(demands->kv_format, "f32");
}

TEST(DemandsOfACheckpoint, DenseLayersBeforeTheFirstBankAreARunOfTheirOwn) {
  const Checkpoint checkpoint = golden("models/glm4_moe");
  const auto demands = demands_of(checkpoint, KvFormat::kBF16);
  ASSERT_TRUE(demands);
  ASSERT_EQ(demands->layers.size(), 2u);
  EXPECT_EQ(demands->layers[0].n_experts, 0);
  EXPECT_GT(demands->layers[1].n_experts, 0);
}

TEST(Demands, ComeBackFromTheirJson) {
  const ModelDemands demands = planned_model("qwen3.8-flash-next-nvfp4");
  EXPECT_EQ(demands_from_json(Json::parse(to_json(demands).dump())), demands);
  const auto derived = demands_of(golden("models/glm4_moe"), KvFormat::kBF16);
  ASSERT_TRUE(derived);
  EXPECT_EQ(demands_from_json(Json::parse(to_json(*derived).dump())), *derived);
}

TEST(Demands, EachMistakeIsNamed) {
  // What comes before layers is right.
  const std::string head =
      R"({"name": "m", "context_length": 9, "dense_bytes": 1, "kv_bytes_a_token": 1, )";
  const std::string bank = R"("n_experts": 4, "top_k": 2, "expert_bytes": 8)";
  ASSERT_TRUE(parse_demands(head + R"("layers": [{)" + bank + "}]}"));
  const std::pair<std::string, const char*> cases[] = {
      {"{}", "model demands: name is missing"},
      {head + R"("experts": 3, "layers": [{}]})", "there is no field experts"},
      {head + R"("layers": []})", "layers is empty"},
      {head + R"("layers": [{"n_layers": 0}]})", "layers[0].n_layers is 0"},
      {head + R"("layers": [{"n_layers": 1000}, {"n_layers": 25}]})", "there are 1025 layers"},
      {head + R"("layers": [{"top_k": 2}]})", "layers[0] has top_k or expert_bytes"},
      {head + R"("layers": [{"n_experts": 4, "top_k": 5, "expert_bytes": 1}]})",
       "layers[0].top_k is 5, expected 1 to 4"},
      {head + R"("layers": [{"n_experts": 4, "top_k": 1}]})", "layers[0].expert_bytes is missing"},
      {head + R"("layers": [{"n_experts": 70000, "top_k": 1, "expert_bytes": 1}]})",
       "layers[0].n_experts is 70000"},
      {head + R"("layers": [{"n_experts": 60000, "top_k": 1, "expert_bytes": "1 TiB"}]})",
       "the weights are"},
      {head + R"("layers": [{}], "chunk_tokens": 0})", "chunk_tokens is 0"},
      {head + R"("layers": [{}], "sequence_bytes": "2 GiB"})", "sequence_bytes is 2.0 GiB"},
      {R"({"name": "m", "context_length": 0, "dense_bytes": 1, "kv_bytes_a_token": 1, "layers": [{}]})",
       "context_length is 0"},
  };
  for (const auto& [text, words] : cases) {
    const auto demands = parse_demands(text);
    ASSERT_FALSE(demands) << text;
    EXPECT_EQ(demands.error().kind, ErrorKind::kInvalidData);
    EXPECT_NE(demands.error().message.find(words), std::string::npos) << demands.error().message;
  }
}

}  // namespace
}  // namespace penstock
