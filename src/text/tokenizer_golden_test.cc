// Every tokenizer of tests/golden/tokenizers against what the `tokenizers` package did with the
// same texts.
#include <gtest/gtest.h>

#include <algorithm>

#include "text/detokenizer.h"
#include "text/tokenizer_testing.h"
#include "text/unicode.h"

namespace penstock {
namespace {

Tokenizer load(const std::string& name) {
  return expect_value(
      Tokenizer::from_json(read_file(kGoldenTokenizers + name + "/tokenizer.json")));
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text,
                            EncodeOptions options = {}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().text();
  return ids ? *ids : std::vector<int32_t>{};
}

// What a stream shows: after token i at least least[i] and at most most[i] characters, in the end
// all of `text`.
void expect_stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, const Json& stream,
                   const std::string& text) {
  Detokenizer detokenizer(tokenizer, /*skip_special=*/false);
  std::string shown;
  for (size_t i = 0; i < ids.size(); ++i) {
    shown += detokenizer.push(ids[i]);
    EXPECT_FALSE(find_invalid_utf8(shown)) << "half a character after token " << i;
    const size_t n = count_characters(shown);
    EXPECT_GE(n, stream["least"][i].get<size_t>()) << "after token " << i;
    EXPECT_LE(n, stream["most"][i].get<size_t>()) << "after token " << i;
  }
  shown += detokenizer.finish();
  EXPECT_EQ(shown, text);
}

void expect_case(const Tokenizer& tokenizer, const std::string& text, const Json& expected) {
  const auto ids = expected["ids"].get<std::vector<int32_t>>();
  EXPECT_EQ(encode(tokenizer, text, {.add_special = false}), ids);
  auto with_special = expected.value("prefix", std::vector<int32_t>{});
  with_special.insert(with_special.end(), ids.begin(), ids.end());
  EXPECT_EQ(encode(tokenizer, text), with_special);

  const std::string decoded = expected.value("decoded", text);
  EXPECT_EQ(tokenizer.decode(ids, /*skip_special=*/false), decoded);
  EXPECT_EQ(tokenizer.decode(ids, /*skip_special=*/true),
            expected.value("decoded_skip_special", decoded));
  if (expected.contains("stream")) expect_stream(tokenizer, ids, expected["stream"], decoded);
}

class GoldenTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizer, DoesWhatTokenizersDoes) {
  const Tokenizer tokenizer = load(GetParam());
  const Json corpus = read_json(kGoldenTokenizers + "corpus.json");
  const Json cases = read_json(kGoldenTokenizers + GetParam() + "/cases.json");
  ASSERT_GE(corpus.size(), 60u);
  for (const auto& [name, text] : corpus.items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(cases.contains(name));
    expect_case(tokenizer, text.get<std::string>(), cases[name]);
  }
}

TEST_P(GoldenTokenizer, IdsThatAreNoTextDecodeAlikeWholeAndStreamed) {
  const Tokenizer tokenizer = load(GetParam());
  const Json cases =
      read_json(kGoldenTokenizers + GetParam() + "/cases.json")["ids that are no text"];
  ASSERT_GE(cases.size(), 5u);
  for (const auto& [name, expected] : cases.items()) {
    SCOPED_TRACE(name);
    const auto ids = expected["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.decode(ids, /*skip_special=*/false),
              expected["decoded"].get<std::string>());
    Detokenizer detokenizer(tokenizer, /*skip_special=*/false);
    std::string shown;
    for (const int32_t id : ids) shown += detokenizer.push(id);
    EXPECT_EQ(shown + detokenizer.finish(), expected["decoded"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizer,
                         testing::Values("added", "deepseek", "gemma", "gpt2", "llama2", "llama3",
                                         "metaspace", "o200k", "qwen-marks", "qwen2"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(GoldenSmolLm2, TheGgufsOwnTokenizerDoesWhatTokenizersDoes) {
  const Tokenizer tokenizer = expect_value(Tokenizer::from_vocabulary(smollm2_vocabulary()));
  EXPECT_EQ(tokenizer.vocab_size(), 49152u);
  EXPECT_EQ(tokenizer.eos_id(), tokenizer.token_id("<|im_end|>"));
  const Json corpus = read_json(kGoldenTokenizers + "corpus.json");
  const Json cases = read_json(kGoldenTokenizers + "smollm2.cases.json");
  for (const auto& [name, text] : corpus.items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(cases.contains(name));
    expect_case(tokenizer, text.get<std::string>(), cases[name]);
  }
}

// The golden tokenizers as a GGUF would hold them.
GgufVocabulary as_gguf(const std::string& name, const std::string& pre) {
  const Json file = read_json(kGoldenTokenizers + name + "/tokenizer.json");
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  const auto set = [&](const std::string& text, size_t id, GgufTokenType type) {
    if (vocabulary.tokens.size() <= id) {
      vocabulary.tokens.resize(id + 1);
      vocabulary.token_types.resize(id + 1);
    }
    vocabulary.tokens[id] = text;
    vocabulary.token_types[id] = static_cast<int32_t>(type);
  };
  for (const auto& [text, id] : file["model"]["vocab"].items())
    set(text, id, GgufTokenType::kNormal);
  for (const Json& token : file["added_tokens"]) {
    set(token["content"], token["id"],
        token["special"] ? GgufTokenType::kControl : GgufTokenType::kUserDefined);
  }
  for (const Json& merge : file["model"]["merges"]) {
    vocabulary.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return vocabulary;
}

TEST(GoldenGguf, EachPreKindSplitsAsItsModelDoes) {
  const std::pair<const char*, const char*> kinds[] = {
      {"gpt2", "gpt-2"},   {"llama3", "llama-bpe"},  {"qwen2", "qwen2"},
      {"o200k", "gpt-4o"}, {"qwen-marks", "qwen35"}, {"deepseek", "deepseek-v3"}};
  const Json corpus = read_json(kGoldenTokenizers + "corpus.json");
  for (const auto& [name, pre] : kinds) {
    const Tokenizer tokenizer = expect_value(Tokenizer::from_vocabulary(as_gguf(name, pre)));
    const Json cases = read_json(kGoldenTokenizers + name + "/cases.json");
    for (const auto& [text_name, text] : corpus.items()) {
      SCOPED_TRACE(std::string(pre) + ", " + text_name);
      EXPECT_EQ(encode(tokenizer, text.get<std::string>(), {.add_special = false}),
                cases[text_name]["ids"].get<std::vector<int32_t>>());
    }
  }
}

}  // namespace
}  // namespace penstock
