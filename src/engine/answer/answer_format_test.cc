#include "engine/answer/answer_format.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/json.h"
#include "engine/fake_chat.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

// The fake tokenizer knows <think> and </think>, and `more` (text, special).
Tokenizer tokenizer_with(const std::vector<std::pair<std::string, bool>>& more) {
  Json file = Json::parse(fake_stored_tokenizer().json);
  int64_t id = kFakeVocabSize;
  for (const auto& [text, special] : more) {
    file["added_tokens"].push_back(fake_added_token(id++, text, special));
  }
  return Tokenizer::from_json(file.dump()).value();
}

AnswerFormat found(std::string_view template_source,
                   const std::vector<std::pair<std::string, bool>>& more = {}) {
  return choose_answer_format({}, template_source, tokenizer_with(more)).value();
}

TEST(AnswerFormat, TheTemplateSaysIt) {
  EXPECT_EQ(found("{{ '<tool_call>\\n' }}").tools, ToolForm::kHermes);
  EXPECT_EQ(found("<tool_call>\n<function=' + name + '>").tools, ToolForm::kQwen3Coder);
  EXPECT_EQ(found("{{- '<|python_tag|>' }}").tools, ToolForm::kLlama3);
  EXPECT_EQ(found("[TOOL_CALLS][").tools, ToolForm::kMistral);
  EXPECT_EQ(found("plain").tools, ToolForm::kNone);
}

// Templates with the structure of real ones.
TEST(AnswerFormat, GoldenTemplates) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/tests/golden/templates.json");
  const Json templates = Json::parse(file)["templates"];
  const auto form = [&](const char* name) {
    return found(templates[name].get<std::string>()).tools;
  };
  EXPECT_EQ(form("qwen"), ToolForm::kHermes);
  EXPECT_EQ(form("coder"), ToolForm::kQwen3Coder);
  EXPECT_EQ(form("chatml"), ToolForm::kNone);
}

TEST(AnswerFormat, TheVocabularySaysItWhereTheTemplateDoesNot) {
  EXPECT_EQ(found("", {{"<|python_tag|>", true}}).tools, ToolForm::kLlama3);
  EXPECT_EQ(found("", {{"[TOOL_CALLS]", true}}).tools, ToolForm::kMistral);
  // A Hermes model on Llama's vocabulary.
  EXPECT_EQ(found("<tool_call>", {{"<|python_tag|>", true}}).tools, ToolForm::kHermes);
}

TEST(AnswerFormat, Reasoning) {
  EXPECT_EQ(reasoning_name(found("").reasoning), "think");  // </think> is an added token
  EXPECT_EQ(reasoning_name(found("'[/THINK]'", {}).reasoning), "think");
  const Tokenizer plain = Tokenizer::from_json([] {
                            Json file = Json::parse(fake_stored_tokenizer().json);
                            file["added_tokens"] = Json::array();
                            return file.dump();
                          }())
                              .value();
  EXPECT_EQ(choose_answer_format({}, "", plain)->reasoning, ReasoningTags{});
  EXPECT_EQ(reasoning_name(choose_answer_format({}, "'[/THINK]'", plain)->reasoning), "mistral");
  EXPECT_EQ(reasoning_name(choose_answer_format({}, "'</think>'", plain)->reasoning), "think");
}

TEST(AnswerFormat, NamesOverride) {
  const Tokenizer tokenizer = tokenizer_with({});
  const auto named = [&](const std::string& tools, const std::string& reasoning) {
    return choose_answer_format({.tools = tools, .reasoning = reasoning}, "<tool_call>", tokenizer);
  };
  for (const std::string name : {"none", "hermes", "qwen3_coder", "llama3_json", "mistral"}) {
    EXPECT_EQ(tool_form_name(named(name, "none")->tools), name);
  }
  EXPECT_EQ(named("none", "none")->reasoning, ReasoningTags{});
  EXPECT_EQ(reasoning_name(named("none", "mistral")->reasoning), "mistral");
  for (const auto& wrong : {named("pythonic", "auto"), named("auto", "deep")}) {
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(wrong.error().message.find("auto, none, "), std::string::npos);
  }
}

TEST(AnswerFormat, SpecialTokensOfTheFormat) {
  const Tokenizer tokenizer = tokenizer_with(
      {{"[TOOL_CALLS]", true}, {"[ARGS]", true}, {"[INST]", true}, {"</tool_call>", false}});
  const AnswerFormat mistral = choose_answer_format({.reasoning = "none"}, "", tokenizer).value();
  EXPECT_EQ(format_token_ids(mistral, tokenizer),
            (std::vector<int32_t>{kFakeVocabSize, kFakeVocabSize + 1}));
  EXPECT_EQ(format_token_ids({}, tokenizer), std::vector<int32_t>{});
}

TEST(AnswerFormat, APromptCanOpenTheThought) {
  const Tokenizer tokenizer = tokenizer_with({});
  const ReasoningTags tags = {"<think>", "</think>"};
  const auto opens = [&](std::string_view prompt, bool parse_special = true) {
    const auto ids = tokenizer.encode(prompt, {.parse_special = parse_special}).value();
    return opens_reasoning(tags, ids, tokenizer);
  };
  EXPECT_TRUE(opens("<|im_start|>assistant\n<think>\n"));
  EXPECT_TRUE(opens("<think>"));
  EXPECT_FALSE(opens("<|im_start|>assistant\n"));
  EXPECT_FALSE(opens("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens(""));
  EXPECT_FALSE(opens_reasoning({}, std::vector<int32_t>{kThink}, tokenizer));
  // Spelt in a message that ends the prompt: other tokens.
  EXPECT_FALSE(opens_reasoning(tags, bytes_of("say <think>"), tokenizer));
}

}  // namespace
}  // namespace penstock
