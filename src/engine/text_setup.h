// The tokenizer and the chat template of a checkpoint, ready for use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace penstock {

class Tokenizer;
class ChatTemplate;

struct TextSetup {
  std::shared_ptr<const Tokenizer> tokenizer = {};
  std::shared_ptr<const ChatTemplate> chat_template = {};  // null: the checkpoint has none
  std::string template_source = {};
  std::string bos_token = {};
  std::string eos_token = {};
};

// kNotFound when the checkpoint has no tokenizer; kInvalidData and kUnsupported as the parsers say.
Result<TextSetup> make_text_setup(const StoredTokenizer& stored);

// The ids that end an answer: those the checkpoint names, and the one its tokenizer calls eos, each
// once. Files disagree in the wild, and any of them may be the one that the model was taught.
std::vector<int32_t> end_ids(const GenerationDefaults& generation, const TextSetup& text);

}  // namespace penstock
