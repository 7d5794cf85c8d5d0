// Features one by one, against `tokenizers` (make_steps.py) and SentencePiece
// (make_sentencepiece.py).
#include <gtest/gtest.h>

#include "text/detokenizer.h"
#include "text/tokenizer_testing.h"

namespace penstock {
namespace {

const Json& steps() {
  static const Json file = read_json(kGoldenTokenizers + "steps.json");
  return file;
}

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const auto& [name, variant] : steps()["variants"].items()) names.push_back(name);
  return names;
}

class TokenizerStep : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerStep, DoesWhatTokenizersDoes) {
  const Json& variant = steps()["variants"][GetParam()];
  Json file = steps()["bases"][variant["base"].get<std::string>()];
  file.update(variant["change"]);
  const Tokenizer tokenizer = expect_value(Tokenizer::from_json(file.dump()));
  ASSERT_GE(variant["cases"].size(), 25u);
  for (const Json& expected : variant["cases"]) {
    const auto text = expected["text"].get<std::string>();
    SCOPED_TRACE(text);
    const auto ids = expected["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(expect_value(tokenizer.encode(text, {.add_special = false})), ids);
    EXPECT_EQ(expect_value(tokenizer.encode(text)), expected.value("with_special", ids));
    EXPECT_EQ(expect_value(tokenizer.encode(text, {.add_special = false, .parse_special = false})),
              expected.value("plain_special", ids));
    EXPECT_EQ(tokenizer.decode(ids, /*skip_special=*/false),
              expected["decoded"].get<std::string>());
    Detokenizer detokenizer(tokenizer, /*skip_special=*/false);
    std::string streamed;
    for (const int32_t id : ids) streamed += detokenizer.push(id);
    EXPECT_EQ(streamed + detokenizer.finish(), expected["decoded"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerStep, testing::ValuesIn(variant_names()),
                         [](const auto& test) {
                           std::string name;
                           for (const char c : test.param)
                             name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

GgufVocabulary sentencepiece_vocabulary(const Json& model) {
  GgufVocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.tokens = model["tokens"];
  vocabulary.scores = model["scores"].get<std::vector<float>>();
  vocabulary.token_types = model["token_types"].get<std::vector<int32_t>>();
  vocabulary.unk_id = 0;
  vocabulary.bos_id = 1;
  vocabulary.eos_id = 2;
  vocabulary.add_space_prefix = model["add_space_prefix"];
  return vocabulary;
}

class SentencePiece : public testing::TestWithParam<const char*> {};

TEST_P(SentencePiece, GgufVocabularyDoesWhatSentencePieceDoes) {
  const Json model = read_json(kGoldenTokenizers + "sentencepiece.json")[GetParam()];
  const Json corpus = read_json(kGoldenTokenizers + "corpus.json");
  const Tokenizer tokenizer =
      expect_value(Tokenizer::from_vocabulary(sentencepiece_vocabulary(model)));
  for (const auto& [name, text] : corpus.items()) {
    SCOPED_TRACE(name);
    const Json& expected = model["cases"][name];
    const auto ids = expected["ids"].get<std::vector<int32_t>>();
    // SentencePiece takes no control token from text.
    EXPECT_EQ(expect_value(tokenizer.encode(text.get<std::string>(),
                                            {.add_special = false, .parse_special = false})),
              ids);
    EXPECT_EQ(tokenizer.decode(ids, /*skip_special=*/false),
              expected.value("decoded", text.get<std::string>()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SentencePiece, testing::Values("llama", "gemma"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace penstock
