// The conversation of `chat`: reads what the person says, obeys commands, keeps the messages.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/line_reader.h"

namespace penstock {

// Shows the answer to `messages` (OpenAI's shape) as it comes, and returns its text. An answer that
// Ctrl-C stopped is what had come by then.
using AnswerFn = std::function<Result<std::string>(const OrderedJson& messages)>;

class ChatLoop {
 public:
  // `system` may be empty.
  ChatLoop(std::string system, LineReader& reader, AnswerFn answer);

  // Until the person has no more to say. A turn that fails is told, and the conversation goes on
  // without it.
  void run();

 private:
  std::optional<std::string> read_message();
  void obey(std::string_view command);
  void clear();
  Result<void> answer(const std::string& question);

  std::string system_;
  LineReader& reader_;
  AnswerFn answer_;
  OrderedJson messages_;
};

}  // namespace penstock
