// For tests: a tokenizer with a token for each byte, a ChatML template, and fake models that say a
// given text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "engine/fake_model.h"
#include "engine/text_setup.h"
#include "text/unicode.h"

namespace penstock {

// Ids [0, 256) are the bytes.
inline constexpr int32_t kImStart = 256;   // <|im_start|>, special
inline constexpr int32_t kImEnd = 257;     // <|im_end|>, special: the end of an answer
inline constexpr int32_t kThink = 258;     // <think>, not special
inline constexpr int32_t kThinkEnd = 259;  // </think>, not special
inline constexpr int64_t kFakeVocabSize = 260;

// Drops thoughts from earlier answers and knows tools, as Qwen3's does, so that text can matter to
// it.
inline constexpr std::string_view kChatMl =
    "{%- if tools %}{{ '<|im_start|>system\\n' }}"
    "{%- for tool in tools %}{{ tool | tojson }}{{ '\\n' }}{%- endfor %}{{ '<|im_end|>\\n' }}"
    "{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'critic' %}{{ raise_exception('no critics') }}{%- endif %}"
    "{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.role == 'assistant' and '</think>' in message.content %}"
    "{{- message.content.split('</think>')[-1] }}"
    "{%- else %}{{- message.content }}{%- endif %}"
    "{{- '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

// An entry of tokenizer.json's added_tokens.
inline Json fake_added_token(int64_t id, std::string_view text, bool special) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

inline StoredTokenizer fake_stored_tokenizer(std::string_view chat_template = kChatMl) {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    append_character(character, character_of_byte(static_cast<uint8_t>(byte)));
    vocabulary[character] = byte;
  }
  const Json added = Json::array({fake_added_token(kImStart, "<|im_start|>", true),
                                  fake_added_token(kImEnd, "<|im_end|>", true),
                                  fake_added_token(kThink, "<think>", false),
                                  fake_added_token(kThinkEnd, "</think>", false)});
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", false}};
  const Json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  return {.json = tokenizer.dump(),
          .chat_template = std::string(chat_template),
          .eos_token = "<|im_end|>"};
}

inline TextSetup fake_text(std::string_view chat_template = kChatMl) {
  return make_text_setup(fake_stored_tokenizer(chat_template)).value();
}

inline std::vector<int32_t> bytes_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

// Answers every conversation with `ids`, again and again if `for_ever`, else followed by
// <|im_end|>.
inline FakeModelOptions saying(std::vector<int32_t> ids, bool for_ever = false) {
  if (!for_ever) ids.push_back(kImEnd);
  FakeModelOptions options;
  options.vocab_size = kFakeVocabSize;
  options.logits = [ids](std::span<const int32_t> history, std::span<float> logits) {
    const auto turn = std::find(history.rbegin(), history.rend(), kImStart);
    const auto n_since = static_cast<size_t>(turn - history.rbegin());
    const size_t n_said = n_since - std::string_view("assistant\n").size();
    std::ranges::fill(logits, 0.0F);
    logits[static_cast<size_t>(ids[n_said % ids.size()])] = 50.0F;
  };
  return options;
}

}  // namespace penstock
