// Every tokenizer of tests/golden/tokenizers against what the `tokenizers` package did with the
// same texts.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/json.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace penstock {
namespace {

const std::string kFolder = PENSTOCK_SOURCE_DIR "/tests/golden/tokenizers/";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Json read_json(const std::string& path) {
  auto json = parse_json(read_file(path));
  EXPECT_TRUE(json) << path;
  return *json;
}

Tokenizer load(const std::string& name) {
  auto tokenizer = Tokenizer::from_json(read_file(kFolder + name + "/tokenizer.json"));
  if (!tokenizer) throw std::runtime_error(tokenizer.error().text());
  return *tokenizer;
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
  const Json corpus = read_json(kFolder + "corpus.json");
  const Json cases = read_json(kFolder + GetParam() + "/cases.json");
  ASSERT_GE(corpus.size(), 60u);
  for (const auto& [name, text] : corpus.items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(cases.contains(name));
    expect_case(tokenizer, text.get<std::string>(), cases[name]);
  }
}

TEST_P(GoldenTokenizer, IdsThatAreNoTextDecodeAlikeWholeAndStreamed) {
  const Tokenizer tokenizer = load(GetParam());
  const Json cases = read_json(kFolder + GetParam() + "/cases.json")["ids that are no text"];
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

}  // namespace
}  // namespace penstock
