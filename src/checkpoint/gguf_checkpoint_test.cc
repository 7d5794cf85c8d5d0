#include "checkpoint/gguf_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace penstock {
namespace {

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(PENSTOCK_SOURCE_DIR "/tests/golden/gguf") / name;
}

// What tests/golden/make_gguf.py's small() and write() say of the llama files.
ModelSpec small_llama() {
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

TEST(GgufCheckpoint, SmallLlama) {
  const auto checkpoint = open_checkpoint(golden("llama-q4_1.gguf"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ModelSpec spec = checkpoint->spec;
  // 1, then the factor 8 at the low end: rope_factors() of the maker.
  ASSERT_EQ(spec.rope.freq_divisors.size(), 8u);
  EXPECT_EQ(spec.rope.freq_divisors.front(), 1.0F);
  EXPECT_EQ(spec.rope.freq_divisors.back(), 8.0F);
  spec.rope.freq_divisors.clear();
  EXPECT_EQ(spec, small_llama());
  EXPECT_EQ(checkpoint->name, "llama-q4_1");
  EXPECT_EQ(checkpoint->tensors.size(), 3u + 2 * 9);
  EXPECT_EQ(checkpoint->generation.bos_id, 1);
  EXPECT_EQ(checkpoint->generation.eos_ids, std::vector<int32_t>{2});
  EXPECT_TRUE(checkpoint->tokenizer.ggml.is_null()) << "tokenizer model \"none\"";
}

}  // namespace
}  // namespace penstock
