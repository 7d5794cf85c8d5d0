// What POST /v1/chat/completions answers: one object, or server-sent events.
#pragma once

#include <memory>

#include "engine/answer/answer_parser.h"
#include "server/answer_head.h"
#include "server/answer_writer.h"
#include "server/chat_request.h"

namespace penstock {

class Tokenizer;

// With `include_usage` a stream has an event with the usage before the last, and every other says
// "usage": null. `parser` is every choice's, but for the seed of its calls' ids. `tokenizer`
// outlives the writer.
std::unique_ptr<AnswerWriter> make_chat_writer(AnswerHead head, const ChatRequest& request,
                                               AnswerParserOptions parser,
                                               const Tokenizer& tokenizer);

}  // namespace penstock
