// What POST /v1/chat/completions answers: one object, or server-sent events.
#pragma once

#include <memory>

#include "server/answer_head.h"
#include "server/answer_writer.h"
#include "server/chat_request.h"

namespace penstock {

// With `include_usage` a stream has an event with the usage before the last, and every other says
// "usage": null.
std::unique_ptr<AnswerWriter> make_chat_writer(AnswerHead head, const ChatRequest& request);

}  // namespace penstock
