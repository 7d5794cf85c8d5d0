#include "checkpoint/hf_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "checkpoint/test_files.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HfConfig config_with(std::vector<int64_t> eos_ids) {
  HfConfig config;
  config.spec.vocab_size = 100;
  config.eos_ids = std::move(eos_ids);
  return config;
}

HfText read(const TempFolder& folder, const HfConfig& config = config_with({})) {
  auto text = read_hf_text(folder.path(), config);
  EXPECT_TRUE(text) << text.error().message;
  return text ? *std::move(text) : HfText{};
}

TEST(HfText, NoFileIsDemanded) {
  const TempFolder folder;
  const HfText text = read(folder);
  EXPECT_TRUE(text.tokenizer.json.empty());
  EXPECT_TRUE(text.tokenizer.chat_template.empty());
  EXPECT_TRUE(text.tokenizer.ggml.is_null());
  EXPECT_THAT(text.generation.eos_ids, IsEmpty());
  EXPECT_FALSE(text.generation.bos_id);
}

TEST(HfTextBc27, EndsAreTheUnionOfAllFiles) {
  const TempFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id":[1,2],"bos_token_id":5})");
  folder.write("tokenizer_config.json",
               R"({"eos_token":"<end>","added_tokens_decoder":{"4":{"content":"<other>"},)"
               R"("3":{"content":"<end>"}}})");
  const HfText text = read(folder, config_with({0, 2}));
  EXPECT_THAT(text.generation.eos_ids, testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(text.generation.bos_id, 5);
  EXPECT_EQ(text.tokenizer.eos_token, "<end>");

  folder.write("generation_config.json", R"({"eos_token_id":7})");
  EXPECT_THAT(read(folder).generation.eos_ids, testing::UnorderedElementsAre(7, 3));
}

TEST(HfText, IdsOutsideTheVocabularyAreLeftOutWithANote) {
  const TempFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id":[99,100,-1]})");
  const HfText text = read(folder);
  EXPECT_THAT(text.generation.eos_ids, ElementsAre(99));
  EXPECT_THAT(
      text.notes,
      ElementsAre("token id 100 of generation_config.json is ignored: the vocabulary has 100",
                  "token id -1 of generation_config.json is ignored: the vocabulary has 100"));
}

TEST(HfTextBc28, ATemplateInAFileOfItsOwnIsUsed) {
  const TempFolder folder;
  folder.write("tokenizer_config.json", R"({"model_max_length":1000000000000000019884624838656})");
  EXPECT_EQ(read(folder).tokenizer.chat_template, "");
  folder.write("chat_template.jinja", "{{ from_jinja }}");
  EXPECT_EQ(read(folder).tokenizer.chat_template, "{{ from_jinja }}");
  folder.write("tokenizer_config.json", R"({"chat_template":"{{ from_config }}"})");
  EXPECT_EQ(read(folder).tokenizer.chat_template, "{{ from_jinja }}") << "it wins";
}

TEST(HfText, OtherPlacesOfTemplates) {
  const TempFolder folder;
  folder.write(
      "tokenizer_config.json",
      R"({"chat_template":[{"name":"rag","template":"r"},{"name":"default","template":"d"}]})");
  EXPECT_EQ(read(folder).tokenizer.chat_template, "d");
  folder.write("chat_template.json", R"({"chat_template":"j"})");
  EXPECT_EQ(read(folder).tokenizer.chat_template, "j");
}

TEST(HfText, SpecialTokensAreTextOrObjects) {
  const TempFolder folder;
  folder.write("special_tokens_map.json",
               R"({"bos_token":"<old>","eos_token":{"content":"</s>"}})");
  folder.write("tokenizer_config.json", R"({"bos_token":{"content":"<s>"},"eos_token":null})");
  folder.write("tokenizer.json", "kept as it is");
  const HfText text = read(folder);
  EXPECT_EQ(text.tokenizer.bos_token, "<s>");
  EXPECT_EQ(text.tokenizer.eos_token, "</s>");
  EXPECT_EQ(text.tokenizer.json, "kept as it is");
}

TEST(HfText, FilesThatAreWrongAreNamed) {
  struct {
    const char* file;
    const char* text;
    const char* expected;
  } cases[] = {
      {"generation_config.json", "{", "invalid JSON"},
      {"generation_config.json", "[1]", "the whole is [1], expected an object"},
      {"generation_config.json", R"({"eos_token_id":"2"})", "\"eos_token_id\" is \"2\""},
      {"generation_config.json", R"({"eos_token_id":[2,"3"]})", "\"eos_token_id\" is [2,\"3\"]"},
      {"tokenizer_config.json", "", "invalid JSON"},
      {"tokenizer_config.json", R"({"eos_token":2})", "\"eos_token\" is 2"},
      {"tokenizer_config.json", R"({"bos_token":{}})", "\"bos_token\" is {}"},
      {"tokenizer_config.json", R"({"chat_template":1})", "\"chat_template\" is 1"},
      {"special_tokens_map.json", R"({"bos_token":[]})", "\"bos_token\" is []"},
      {"chat_template.json", "nope", "invalid JSON"},
  };
  for (const auto& bad : cases) {
    const TempFolder folder;
    const auto path = folder.write(bad.file, bad.text);
    const auto text = read_hf_text(folder.path(), config_with({}));
    ASSERT_FALSE(text) << bad.text;
    EXPECT_THAT(text.error().message, HasSubstr(path.string()));
    EXPECT_THAT(text.error().message, HasSubstr(bad.expected));
  }
}

}  // namespace
}  // namespace penstock
