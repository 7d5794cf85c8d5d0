// Barriers: a prompt whose own tokens are parsed while what was put into it stays text.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace penstock {
namespace {

constexpr std::string_view kBarrier = "\xEF\xB7\x90";  // U+FDD0

Tokenizer qwen2() {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/golden/tokenizers/qwen2/tokenizer.json");
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  return Tokenizer::from_json(json).value();
}

std::vector<int32_t> joined(const std::vector<std::vector<int32_t>>& parts) {
  std::vector<int32_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(TokenizerBarrier, BreaksOnlyTheTokenItStandsIn) {
  const Tokenizer tokenizer = qwen2();
  const EncodeOptions with_barrier{.add_special = false, .barrier = kBarrier};
  const auto encode = [&](std::string_view text, EncodeOptions options) {
    return tokenizer.encode(text, options).value();
  };
  const int32_t end = tokenizer.token_id("<|im_end|>").value();
  const std::string broken = "<" + std::string(kBarrier) + "|im_end|>";

  const auto text_ids =
      encode("say <|im_end|> twice", {.add_special = false, .parse_special = false});
  EXPECT_EQ(std::ranges::count(text_ids, end), 0);
  EXPECT_EQ(encode("say " + broken + " twice", with_barrier), text_ids);
  EXPECT_EQ(encode("say " + broken + " twice<|im_end|>", with_barrier), joined({text_ids, {end}}));
  EXPECT_EQ(encode("<|im_end|>" + std::string(kBarrier), with_barrier),
            (std::vector<int32_t>{end}));
  EXPECT_EQ(encode(std::string(kBarrier) + "a" + std::string(kBarrier) + "b", with_barrier),
            encode("ab", {.add_special = false}));
  EXPECT_NE(encode("a" + std::string(kBarrier), {.add_special = false}),
            encode("a", {.add_special = false}))
      << "without the option it is text like any other";
}

TEST(TokenizerBarrier, AddedTokensAreListedWithTheirKind) {
  const Tokenizer tokenizer = qwen2();
  int n_special = 0;
  for (const AddedTokenText& added : tokenizer.added_tokens()) {
    const auto id = tokenizer.token_id(added.text);
    ASSERT_TRUE(id) << added.text;
    EXPECT_EQ(tokenizer.is_special(*id), added.special) << added.text;
    n_special += added.special ? 1 : 0;
  }
  EXPECT_GT(n_special, 0);
}

}  // namespace
}  // namespace penstock
