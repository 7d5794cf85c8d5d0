// One streamed answer of a server's model, shown on standard output: what `chat --server` is made
// of.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/client/blocking_client.h"
#include "cli/sampling_options.h"

namespace penstock {

// The body of a streamed chat request. Fields that OpenAI's API does not have are sent only where
// `answer` differs from "off".
OrderedJson chat_body(const std::string& model, const OrderedJson& messages,
                      const AnswerOptions& answer);

// Asks, and shows the answer as it comes: reasoning dimmed, and only on a terminal. Ctrl-C stops
// it, which is no error.
Result<std::string> show_remote_answer(BlockingClient& client, const OrderedJson& body);

}  // namespace penstock
