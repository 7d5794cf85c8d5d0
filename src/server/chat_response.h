// What POST /v1/chat/completions answers: one object, or server-sent events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/output_stream.h"

namespace penstock {

// What all parts of one answer repeat.
struct AnswerHead {
  std::string id = {};  // "chatcmpl-..."
  std::string model = {};
  int64_t created = 0;  // seconds since 1970
};

AnswerHead make_answer_head(std::string_view model);

std::string chat_completion(const AnswerHead& head, std::string_view text, const OutputEnd& end);

// The same as server-sent events, each a whole "data: ...\n\n": begin, any number of texts, end.
// With `include_usage` an event with the usage comes before the last, and every other says "usage":
// null.
class ChatEvents {
 public:
  ChatEvents(AnswerHead head, bool include_usage)
      : head_(std::move(head)), include_usage_(include_usage) {}

  std::string begin() const;
  std::string text(std::string_view piece) const;
  std::string end(const OutputEnd& end) const;
  // For an error after the status line has been sent; nothing may follow.
  static std::string error(const Error& error);

 private:
  AnswerHead head_;
  bool include_usage_;
};

}  // namespace penstock
