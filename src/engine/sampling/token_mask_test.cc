#include "engine/sampling/token_mask.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace penstock {
namespace {

TEST(TokenMask, EveryBitDecidesItsOwnToken) {
  std::mt19937_64 random(1);
  for (const size_t n_logits : {1, 63, 64, 65, 200}) {
    for (const size_t n_words : {0, 1, 2, 4}) {
      std::vector<uint64_t> words(n_words);
      for (uint64_t& word : words) word = random();
      if (n_words > 1) words[1] = ~uint64_t{0};
      if (n_words > 2) words[2] = 0;
      std::vector<float> logits(n_logits, 1.5F);
      ban_others(words, logits);
      for (size_t id = 0; id < n_logits; ++id) {
        const bool in = id < 64 * n_words && (words[id / 64] >> (id % 64) & 1) == 1;
        EXPECT_EQ(contains(words, static_cast<int32_t>(id)), in);
        EXPECT_EQ(logits[id], in ? 1.5F : -INFINITY) << n_logits << " " << n_words << " " << id;
      }
    }
  }
}

}  // namespace
}  // namespace penstock
