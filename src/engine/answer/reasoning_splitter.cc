#include "engine/answer/reasoning_splitter.h"

#include <utility>

#include "engine/answer/text_scan.h"

namespace penstock {

void ReasoningSplitter::push(char byte, std::string& reasoning, std::string& content) {
  switch (state_) {
    case State::kStart:
      return push_start(byte, reasoning, content);
    case State::kThoughtBegin:
      if (byte == '\n') return;
      state_ = State::kThought;
      return push_thought(byte, reasoning);
    case State::kThought:
      return push_thought(byte, reasoning);
    case State::kContentBegin:
      if (byte == '\n') return;
      state_ = State::kContent;
      break;
    case State::kContent:
      break;
  }
  content += byte;
}

void ReasoningSplitter::push_start(char byte, std::string& reasoning, std::string& content) {
  if (token_.empty() && is_space(byte)) {
    held_ += byte;
    return;
  }
  token_ += byte;
  const Match found = match(token_, tags_.open);
  if (found == Match::kBegun) return;
  if (found == Match::kWhole) {  // some models repeat the prompt's
    held_.clear();
    token_.clear();
    state_ = State::kThoughtBegin;
    return;
  }
  const std::string text = std::exchange(held_, {}) + std::exchange(token_, {});
  state_ = opened_by_prompt_ ? State::kThoughtBegin : State::kContent;
  for (const char held : text) push(held, reasoning, content);
}

void ReasoningSplitter::push_thought(char byte, std::string& reasoning) {
  if (token_.empty() && byte == '\n') {
    held_ += byte;
    return;
  }
  token_ += byte;
  const Match found = match(token_, tags_.close);
  if (found == Match::kBegun) return;
  if (found == Match::kWhole) {
    held_.clear();
    token_.clear();
    state_ = State::kContentBegin;
    return;
  }
  token_.pop_back();
  const bool again = !token_.empty();  // `byte` may begin a tag itself
  reasoning += std::exchange(held_, {}) + std::exchange(token_, {});
  if (again) return push_thought(byte, reasoning);
  reasoning += byte;
}

void ReasoningSplitter::finish(std::string& reasoning, std::string& content) {
  const bool is_thought =
      state_ == State::kThought || (state_ == State::kStart && opened_by_prompt_);
  std::string& rest = is_thought ? reasoning : content;
  rest += std::exchange(held_, {}) + std::exchange(token_, {});
}

}  // namespace penstock
