// The tokenizer and the chat template of a checkpoint, ready for use.
#pragma once

#include <memory>
#include <string>

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

}  // namespace penstock
