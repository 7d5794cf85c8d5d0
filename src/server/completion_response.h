// What POST /v1/completions answers: one object, or server-sent events.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/answer_head.h"
#include "server/answer_writer.h"
#include "server/completion_request.h"

namespace penstock {

class Tokenizer;

// `echoes`: what stands before each choice's own text; one for each choice. `tokenizer` must
// outlive the writer.
std::unique_ptr<AnswerWriter> make_completion_writer(AnswerHead head,
                                                     const CompletionRequest& request,
                                                     std::vector<std::string> echoes,
                                                     const Tokenizer& tokenizer);

}  // namespace penstock
