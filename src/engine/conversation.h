// A conversation as clients send it, checked and brought into the one shape chat templates expect.
#pragma once

#include "base/json.h"
#include "base/result.h"

namespace penstock {

struct Conversation {
  OrderedJson messages = OrderedJson::array();  // OpenAI's shape
  OrderedJson tools = OrderedJson::array();     // OpenAI's shape; empty or null: none
};

// Refuses what is no conversation, naming the field in the message and in Error::param
// ("messages[1].content"), and normalizes the rest in place:
//   content     a string: parts of type "text" are put together in order; null or absent is ""
//   tool_calls  absent when empty or null; `arguments` an object where its text is one
//   tools       an array; null is empty
// Roles are system, developer, user, assistant and tool, in any order: where each may stand is the
// template's business. Fields not named here stay as they are.
Result<void> normalize(Conversation& conversation);

}  // namespace penstock
