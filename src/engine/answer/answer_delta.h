// What a piece of a model's answer adds to what an API's client sees.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace penstock {

// Of one tool call. The first of each index has the id and the name, later ones only arguments.
struct ToolCallDelta {
  size_t index = 0;
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // goes on where the one before ended

  bool operator==(const ToolCallDelta&) const = default;
};

struct AnswerDelta {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ToolCallDelta> calls = {};  // at most one of each index, ascending

  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

}  // namespace penstock
