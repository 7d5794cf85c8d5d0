// Divides an answer into the model's thoughts and what it says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

struct ReasoningTags {
  std::string_view open = {};  // empty: the model does not think aloud
  std::string_view close = {};

  bool operator==(const ReasoningTags&) const = default;
};

// One thought, which begins where the answer does: in the prompt already, or with an opening tag
// that only white space stands before. A tag anywhere else is text. The line ends that touch the
// tags belong to them. Works byte by byte; thread-compatible.
class ReasoningSplitter {
 public:
  ReasoningSplitter(ReasoningTags tags, bool opened_by_prompt)
      : tags_(tags),
        opened_by_prompt_(opened_by_prompt),
        state_(tags.open.empty() ? State::kContent : State::kStart) {}

  // Adds what `byte` decides to either.
  void push(char byte, std::string& reasoning, std::string& content);
  // No more comes: what was held back.
  void finish(std::string& reasoning, std::string& content);

 private:
  enum class State : uint8_t { kStart, kThoughtBegin, kThought, kContentBegin, kContent };

  void push_start(char byte, std::string& reasoning, std::string& content);
  void push_thought(char byte, std::string& reasoning);

  ReasoningTags tags_;
  bool opened_by_prompt_;
  State state_;
  std::string held_;
  std::string token_;  // the end of held_: a tag's beginning
};

}  // namespace penstock
