// Bad files, bad text, and properties of any text.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <random>
#include <thread>

#include "text/detokenizer.h"
#include "text/tokenizer_testing.h"
#include "text/unicode.h"

namespace penstock {
namespace {

Json tiny_json() {
  return Json::parse(R"({
    "added_tokens": [{"id": 4, "content": "<s>", "special": true, "normalized": false}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "abb": 3}, "merges": [["a", "b"], ["ab", "b"]]}
  })");
}

std::string error_of(const Json& file) {
  const auto made = Tokenizer::from_json(file.dump());
  return made ? "" : made.error().text();
}

// The error after setting the value at a JSON pointer.
std::string error_with(const char* pointer, const char* value) {
  Json file = tiny_json();
  file[Json::json_pointer(pointer)] = Json::parse(value);
  return error_of(file);
}

TEST(TokenizerJson, TheTinyFileIsFine) {
  const Tokenizer tokenizer = expect_value(Tokenizer::from_json(tiny_json().dump()));
  EXPECT_EQ(expect_value(tokenizer.encode("abba<s>ab")), (std::vector<int32_t>{3, 0, 4, 2}));
  EXPECT_EQ(tokenizer.vocab_size(), 5u);
  EXPECT_EQ(tokenizer.token_id("abb"), 3);
  EXPECT_EQ(tokenizer.token_id("abbb"), std::nullopt);
  EXPECT_EQ(expect_value(tokenizer.encode("axb")), (std::vector<int32_t>{2}))
      << "x has no token and there is no unk: as if it were not there";
}

TEST(TokenizerJson, ErrorsNameTheField) {
  EXPECT_EQ(error_with("/model/type", "\"Unigram\""),
            "model.type is \"Unigram\"; supported is BPE");
  EXPECT_EQ(error_with("/model/type", "\"WordPiece\""),
            "model.type is \"WordPiece\"; supported is BPE");
  EXPECT_EQ(error_with("/model/dropout", "0.1"),
            "model.dropout is 0.1; random merges are not supported");
  EXPECT_EQ(error_with("/model/end_of_word_suffix", "\"</w>\""),
            "model.end_of_word_suffix is \"</w>\"; supported is none");
  EXPECT_EQ(error_with("/model/unk_token", "\"<unk>\""),
            "model.unk_token is \"<unk>\", which is no token");
  EXPECT_EQ(error_with("/model", "null"), "model is missing; expected an object");
  EXPECT_EQ(error_with("/model/vocab", "{}"), "model.vocab is empty");
  EXPECT_EQ(error_with("/model/vocab", "[]"), "model.vocab is an array; expected an object");
  EXPECT_EQ(error_of(Json::array()), "the file is an array; expected an object");
  EXPECT_FALSE(Tokenizer::from_json("{\"model\":"));
}

TEST(TokenizerJson, MergesMustMakeTokensOfTokens) {
  EXPECT_EQ(error_with("/model/merges/1", R"(["ab", "x"])"),
            "model.merges[1] needs \"x\", which is not in the vocabulary");
  EXPECT_EQ(error_with("/model/merges/1", R"(["b", "a"])"),
            "model.merges[1] needs \"ba\", which is not in the vocabulary");
  EXPECT_EQ(error_with("/model/merges/0", R"("a b c")"), "model.merges[0] is not a pair of tokens");
  EXPECT_EQ(error_with("/model/merges/0", R"(["a"])"), "model.merges[0] is not a pair of tokens");
  EXPECT_EQ(error_with("/model/merges/0", "7"), "model.merges[0] is not a pair of tokens");
  EXPECT_EQ(error_with("/model/merges", "null"), "model.merges is missing; expected an array");
}

TEST(TokenizerJson, IdsMustBeSmallAndDifferent) {
  EXPECT_EQ(error_with("/model/vocab/b", "1099511627776"),
            "model.vocab gives \"b\" the id 1099511627776; expected 0 to 1048575");
  EXPECT_EQ(error_with("/model/vocab/b", "18446744073709551615"),
            "model.vocab.b is a number; expected a whole number");
  EXPECT_EQ(error_with("/model/vocab/b", "-1"),
            "model.vocab gives \"b\" the id -1; expected 0 to 1048575");
  EXPECT_EQ(error_with("/model/vocab/b", "1.5"),
            "model.vocab gives \"b\" a number as its id; expected a whole number");
  EXPECT_EQ(error_with("/model/vocab/b", "2"),
            "model.vocab gives \"b\" the id 2, which is that of \"ab\"");
  EXPECT_EQ(error_with("/added_tokens/0/id", "0"),
            "added_tokens[0] gives \"<s>\" the id 0, which is that of \"a\"");
  EXPECT_EQ(error_with("/added_tokens/0/content", "\"a\""),
            "added_tokens[0] gives \"a\" the id 4, but it has the id 0");
  EXPECT_EQ(error_with("/added_tokens/0/id", "\"4\""),
            "added_tokens[0].id is a string; expected a whole number");
}

TEST(TokenizerJson, TemplatesMustNameTokens) {
  EXPECT_EQ(error_with("/post_processor",
                       R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}},
                           {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [9]}}})"),
            "post_processor.special_tokens.<s>.ids has 9, which is no token's id");
  EXPECT_EQ(
      error_with("/post_processor",
                 R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [4]}}})"),
      "post_processor.single leaves the text out");
  EXPECT_EQ(error_with("/post_processor", R"({"type": "BertProcessing"})"),
            "post_processor.type is \"BertProcessing\"; supported are TemplateProcessing, "
            "ByteLevel and Sequence");
}

TEST(TokenizerJson, StepsOutOfOrderAreRefused) {
  EXPECT_EQ(error_with("/pre_tokenizer", R"({"type": "BertPreTokenizer"})"),
            "pre_tokenizer.type is \"BertPreTokenizer\"; supported are ByteLevel, Split, "
            "Metaspace, Digits, Punctuation, "
            "WhitespaceSplit and Sequence");
  EXPECT_EQ(
      error_with(
          "/pre_tokenizer",
          R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})"),
      "pre_tokenizer.pretokenizers[1].type is \"Digits\" after ByteLevel; ByteLevel is supported "
      "as the last step");
  EXPECT_EQ(error_with("/decoder", R"({"type": "WordPiece"})"),
            "decoder.type is \"WordPiece\"; supported are ByteLevel, ByteFallback, Fuse, Strip, "
            "Replace, Metaspace and "
            "Sequence");
  EXPECT_NE(error_with("/decoder", R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                                       {"type": "Replace", "pattern": {"String": "a"}, "content": ""}]})"),
            "");
}

std::string split_with(std::string_view regex) {
  Json split = {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", regex}}}};
  return error_with("/pre_tokenizer", split.dump().c_str());
}

TEST(TokenizerJson, BadRegexesAreRefused) {
  EXPECT_EQ(split_with("(a"),
            "pre_tokenizer: the regex \"(a\" does not compile: missing closing parenthesis");
  EXPECT_EQ(
      split_with("[a&&[^b]]"),
      "pre_tokenizer: the regex \"[a&&[^b]]\" intersects classes with &&, which is not supported");
  EXPECT_EQ(
      split_with("[a[b]]"),
      "pre_tokenizer: the regex \"[a[b]]\" has a class inside a class, which is not supported");
  EXPECT_EQ(split_with("[[:alpha:]]+|[]a]|\\[[b]"), "");
}

// A fuzzer that starts from refused files would hardly reach the encoder.
TEST(TokenizerJson, TheFuzzersSeedsLoad) {
  for (const char* name : {"added", "bytelevel", "lookahead", "metaspace", "nfkc", "nodecoder",
                           "replace", "split", "strip", "suffix"}) {
    const auto made = Tokenizer::from_json(read_file(
        std::string(PENSTOCK_SOURCE_DIR "/tests/fuzz/corpus/tokenizer_fuzz/") + name + ".json"));
    EXPECT_TRUE(made) << name << ": " << made.error().text();
  }
}

TEST(Tokenizer, ARegexThatBacktracksForEverIsAnError) {
  Json file = tiny_json();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a|aa)+(?=[bc])"}}}};
  const Tokenizer tokenizer = expect_value(Tokenizer::from_json(file.dump()));
  EXPECT_EQ(expect_value(tokenizer.encode("aab")), (std::vector<int32_t>{0, 0, 1}));
  const auto ids = tokenizer.encode(std::string(60, 'a'));
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().kind, ErrorKind::kInvalidData);
  EXPECT_NE(ids.error().text().find("(a|aa)+(?=[bc])"), std::string::npos);
}

TEST(Tokenizer, TextThatIsNotUtf8IsAnError) {
  const Tokenizer tokenizer = expect_value(Tokenizer::from_json(tiny_json().dump()));
  const auto ids = tokenizer.encode("ab\xC3");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(ids.error().message, "the text is not valid UTF-8 at byte 2");
}

GgufVocabulary tiny_gguf() {
  return {.model = "gpt2",
          .pre = "gpt-2",
          .tokens = {"a", "b", "ab", "<s>"},
          .scores = {},
          .token_types = {1, 1, 1, 3},
          .merges = {"a b"},
          .bos_id = 3,
          .eos_id = {},
          .eot_id = {},
          .unk_id = {},
          .pad_id = {},
          .add_bos = true,
          .add_eos = {},
          .add_space_prefix = {}};
}

std::string gguf_error(const std::function<void(GgufVocabulary&)>& change) {
  GgufVocabulary vocabulary = tiny_gguf();
  change(vocabulary);
  const auto made = Tokenizer::from_vocabulary(vocabulary);
  return made ? "" : made.error().text();
}

TEST(TokenizerGguf, TheTinyVocabularyIsFine) {
  const Tokenizer tokenizer = expect_value(Tokenizer::from_vocabulary(tiny_gguf()));
  EXPECT_EQ(expect_value(tokenizer.encode("ab<s>b")), (std::vector<int32_t>{3, 2, 3, 1}));
  EXPECT_EQ(tokenizer.bos_id(), 3);
  EXPECT_EQ(tokenizer.eos_id(), std::nullopt);
}

TEST(TokenizerGguf, ErrorsNameTheKey) {
  EXPECT_EQ(gguf_error([](auto& v) { v.model = "t5"; }),
            "tokenizer.ggml.model is \"t5\"; supported are gpt2 and llama");
  EXPECT_EQ(gguf_error([](auto& v) { v.pre = "klingon"; }).substr(0, 67),
            "tokenizer.ggml.pre is \"klingon\"; supported are gpt-2, phi-2, olmo, ");
  EXPECT_EQ(gguf_error([](auto& v) { v.tokens.clear(); }), "tokenizer.ggml.tokens is empty");
  EXPECT_EQ(gguf_error([](auto& v) { v.tokens[1] = "a"; }),
            "tokenizer.ggml.tokens gives \"a\" the id 1, but it has the id 0");
  EXPECT_EQ(gguf_error([](auto& v) { v.tokens[1] = "\xFF"; }),
            "tokenizer.ggml.tokens[1] is not valid UTF-8");
  EXPECT_EQ(gguf_error([](auto& v) { v.token_types.pop_back(); }),
            "tokenizer.ggml.token_type has 3 values for 4 tokens");
  EXPECT_EQ(gguf_error([](auto& v) { v.token_types[2] = 7; }),
            "tokenizer.ggml.token_type[2] is 7; expected 1 to 6");
  EXPECT_EQ(gguf_error([](auto& v) { v.merges = {"ab"}; }),
            "tokenizer.ggml.merges[0] is \"ab\"; expected two tokens and a space");
  EXPECT_EQ(gguf_error([](auto& v) { v.merges = {"b a"}; }),
            "tokenizer.ggml.merges[0] needs \"ba\", which is not in the vocabulary");
  EXPECT_EQ(gguf_error([](auto& v) { v.eos_id = 4; }),
            "tokenizer.ggml.eos_token_id is 4; there are 4 tokens");
  EXPECT_EQ(gguf_error([](auto& v) { v.bos_id = -1; }),
            "tokenizer.ggml.bos_token_id is -1; there are 4 tokens");
  EXPECT_EQ(gguf_error([](auto& v) { v.model = "llama"; }),
            "tokenizer.ggml.scores has 0 values for 4 tokens");
  EXPECT_EQ(gguf_error([](auto& v) {
              v.model = "llama";
              v.scores = {0, NAN, 0, 0};
            }),
            "tokenizer.ggml.scores[1] is not a number");
  EXPECT_EQ(gguf_error([](auto& v) {
              v.model = "llama";
              v.scores = {0, 0, 0, 0};
              v.tokens[2] = std::string(300, 'a');
            }),
            "tokenizer.ggml.tokens[2] has 300 bytes; supported are 256");
}

TEST(TokenizerGguf, EveryPreKindCompiles) {
  for (const std::string_view pre : Tokenizer::supported_gguf_pre()) {
    EXPECT_EQ(gguf_error([&](auto& v) { v.pre = pre; }), "") << pre;
  }
}

// Any Unicode text, with what tokenizers trip over made frequent.
std::string random_text(std::mt19937& random) {
  const auto below = [&](uint32_t n) { return static_cast<char32_t>(random() % n); };
  std::string text;
  for (size_t n = random() % 60; n > 0; --n) {
    switch (random() % 8) {
      case 0:
        append_character(text, U" \n\r\t\u00A0\u3000\u2581\u200D"[random() % 8]);
        break;
      case 1:
        append_character(text, 0x4E00 + below(0x5000));
        break;
      case 2:
        append_character(text, 0x300 + below(0x70));
        break;
      case 3:
        append_character(text, 0x1F300 + below(0x400));
        break;
      case 4: {
        const char32_t any = below(0x110000);
        append_character(text, any >= 0xD800 && any <= 0xDFFF ? U'?' : any);
        break;
      }
      default:
        append_character(text, 0x20 + below(0x5F));
    }
  }
  return text;
}

// Tokenizers that change nothing on the way in give back every text; none makes a special token of
// text when told not to.
TEST(Tokenizer, RandomTextsRoundTrip) {
  std::mt19937 random(2026);
  for (const char* name : {"gpt2", "llama3", "o200k", "deepseek", "gemma", "llama2"}) {
    const Tokenizer tokenizer =
        expect_value(Tokenizer::from_json(read_file(kGoldenTokenizers + name + "/tokenizer.json")));
    const bool marks_are_spaces = tokenizer.token_id("<0xE2>").has_value();
    for (int round = 0; round < 300; ++round) {
      std::string text = random_text(random);
      if (marks_are_spaces) {
        for (size_t at; (at = text.find("\u2581")) != std::string::npos;) text.replace(at, 3, " ");
      }
      const auto ids =
          expect_value(tokenizer.encode(text, {.add_special = false, .parse_special = false}));
      for (const int32_t id : ids) ASSERT_FALSE(tokenizer.is_special(id)) << name << ": " << text;
      ASSERT_EQ(tokenizer.decode(ids, /*skip_special=*/false), text) << name;
      Detokenizer detokenizer(tokenizer, /*skip_special=*/false);
      std::string shown;
      for (const int32_t id : ids) shown += detokenizer.push(id);
      ASSERT_EQ(shown + detokenizer.finish(), text) << name;
    }
  }
}

TEST(Tokenizer, SpecialTextStaysTextWhenNotParsed) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "gemma", "llama2", "deepseek"}) {
    const Tokenizer tokenizer =
        expect_value(Tokenizer::from_json(read_file(kGoldenTokenizers + name + "/tokenizer.json")));
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.vocab_size()); ++id) {
      if (!tokenizer.is_special(id)) continue;
      const std::string text = "x" + std::string(tokenizer.token_text(id)) + "y";
      const auto parsed = expect_value(tokenizer.encode(text, {.add_special = false}));
      EXPECT_NE(std::ranges::find(parsed, id), parsed.end()) << name << ": " << text;
      const auto ids =
          expect_value(tokenizer.encode(text, {.add_special = false, .parse_special = false}));
      for (const int32_t other : ids)
        EXPECT_FALSE(tokenizer.is_special(other)) << name << ": " << text;
    }
  }
}

TEST(Tokenizer, MergesNeverMakeASpecialToken) {
  Json file = tiny_json();
  file["added_tokens"].push_back(
      {{"id", 2}, {"content", "ab"}, {"special", true}, {"normalized", false}});
  for (const bool ignore_merges : {false, true}) {
    file["model"]["ignore_merges"] = ignore_merges;
    const Tokenizer tokenizer = expect_value(Tokenizer::from_json(file.dump()));
    EXPECT_EQ(expect_value(tokenizer.encode("ab")), std::vector<int32_t>{2});
    EXPECT_EQ(expect_value(tokenizer.encode("ab", {.parse_special = false})),
              (std::vector<int32_t>{0, 1}));
  }
}

TEST(Tokenizer, ThreadsShareOneTokenizer) {
  const Tokenizer tokenizer =
      expect_value(Tokenizer::from_json(read_file(kGoldenTokenizers + "qwen2/tokenizer.json")));
  const Json corpus = read_json(kGoldenTokenizers + "corpus.json");
  const Json cases = read_json(kGoldenTokenizers + "qwen2/cases.json");
  std::vector<std::thread> threads;
  std::atomic<int> n_wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (const auto& [name, text] : corpus.items()) {
        const auto ids =
            tokenizer.encode(text.get_ref<const std::string&>(), {.add_special = false});
        if (!ids || *ids != cases[name]["ids"].get<std::vector<int32_t>>()) ++n_wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0);
}

TEST(Tokenizer, AMegabyteOfOneLetter) {
  const Tokenizer tokenizer =
      expect_value(Tokenizer::from_json(read_file(kGoldenTokenizers + "qwen2/tokenizer.json")));
  for (const char* unit : {"a", " ", "\n", "7", "=", "\u00E9", "\u4E00"}) {
    std::string text;
    while (text.size() < size_t{1} << 20) text += unit;
    EXPECT_EQ(tokenizer.decode(expect_value(tokenizer.encode(text)), /*skip_special=*/false), text);
  }
}

}  // namespace
}  // namespace penstock
