#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer_testing.h"
#include "text/unicode.h"

namespace penstock {
namespace {

Tokenizer golden(const std::string& name) {
  return expect_value(
      Tokenizer::from_json(read_file(kGoldenTokenizers + name + "/tokenizer.json")));
}

// What is shown after each id, and at last by finish().
std::vector<std::string> feed(const Tokenizer& tokenizer, const std::vector<std::string>& tokens,
                              bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::vector<std::string> shown;
  for (const std::string& token : tokens)
    shown.push_back(detokenizer.push(tokenizer.token_id(token).value()));
  shown.push_back(detokenizer.finish());
  return shown;
}

TEST(Detokenizer, AWholeCharacterIsShownWithItsLastByte) {
  EXPECT_EQ(feed(golden("gpt2"), {"\u00E2", "\u0124", "\u00AC", "A"}, false),
            (std::vector<std::string>{"", "", "\u20AC", "A", ""}));
  EXPECT_EQ(feed(golden("gemma"), {"<0xE2>", "<0x82>", "<0xAC>", "<0x41>"}, false),
            (std::vector<std::string>{"", "", "\u20AC", "A", ""}));
}

TEST(Detokenizer, TheEndTurnsAnIncompleteCharacterIntoAReplacement) {
  EXPECT_EQ(feed(golden("gpt2"), {"\u00E2", "\u0124"}, false),
            (std::vector<std::string>{"", "", "\uFFFD"}));
  EXPECT_EQ(feed(golden("gemma"), {"<0xE2>", "<0x82>"}, false),
            (std::vector<std::string>{"", "", "\uFFFD\uFFFD"}));
}

// decode() sees that the run is not UTF-8 before it shows any of it; a stream has shown the A.
TEST(Detokenizer, ARunOfBytesThatTurnsOutBadKeepsWhatWasShown) {
  const Tokenizer tokenizer = golden("gemma");
  EXPECT_EQ(feed(tokenizer, {"<0x41>", "<0xFF>", "<0x42>", "s", "<0x43>"}, false),
            (std::vector<std::string>{"A", "\uFFFD", "\uFFFD", "s", "C", ""}));
  std::vector<int32_t> ids;
  for (const char* token : {"<0x41>", "<0xFF>", "<0x42>", "s", "<0x43>"})
    ids.push_back(*tokenizer.token_id(token));
  EXPECT_EQ(tokenizer.decode(ids, false), "\uFFFD\uFFFD\uFFFDsC");
}

TEST(Detokenizer, StripsTheFirstSpaceOnly) {
  EXPECT_EQ(feed(golden("llama2"), {"\u2581", "\u2581a", "\u2581"}, false),
            (std::vector<std::string>{"", " a", " ", ""}));
}

TEST(Detokenizer, SkipsSpecialTokensAndIdsThatNameNone) {
  const Tokenizer tokenizer = golden("qwen2");
  EXPECT_EQ(feed(tokenizer, {"<|im_start|>", "a", "<think>"}, true),
            (std::vector<std::string>{"", "a", "<think>", ""}));
  EXPECT_EQ(feed(tokenizer, {"<|im_start|>", "a"}, false),
            (std::vector<std::string>{"<|im_start|>", "a", ""}));
  Detokenizer detokenizer(tokenizer, false);
  for (const int32_t id :
       {-1, static_cast<int32_t>(tokenizer.vocab_size()), INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(detokenizer.push(id), "");
    EXPECT_FALSE(tokenizer.has_token(id));
    EXPECT_EQ(tokenizer.token_text(id), "");
    EXPECT_FALSE(tokenizer.is_special(id));
  }
}

// Random ids: at byte level any stream is its decode(), and what is shown is always whole
// characters.
TEST(Detokenizer, ByteLevelStreamsOfAnyIdsAreTheirDecode) {
  for (const char* name : {"gpt2", "added", "deepseek"}) {
    const Tokenizer tokenizer = golden(name);
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
      std::vector<int32_t> ids(random() % 30);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % tokenizer.vocab_size());
      const bool skip_special = round % 2 == 0;
      Detokenizer detokenizer(tokenizer, skip_special);
      std::string shown;
      for (const int32_t id : ids) {
        shown += detokenizer.push(id);
        ASSERT_FALSE(find_invalid_utf8(shown)) << name << ", round " << round;
      }
      ASSERT_EQ(shown + detokenizer.finish(), tokenizer.decode(ids, skip_special))
          << name << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace penstock
