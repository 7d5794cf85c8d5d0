#include "server/chat_handler.h"

#include <utility>

#include "engine/answer/answer_parser.h"
#include "server/chat_request.h"
#include "server/chat_response.h"

namespace penstock {

Result<AnswerPlan> plan_chat(std::string_view body, const ServedModel& model) {
  PENSTOCK_ASSIGN(ChatRequest request, parse_chat_request(body));
  PENSTOCK_TRY(check_model(request.model, model));
  auto prompt = model.chat->format(request.conversation, local_now());
  if (!prompt) {
    Error error = std::move(prompt).error();
    error.param = "messages";
    return std::unexpected(std::move(error));
  }
  const Tokenizer& tokenizer = model.chat->tokenizer();
  const AnswerFormat& format = model.chat->answer_format();
  AnswerParserOptions parser{
      .format = format,
      .tools = DeclaredTools(request.conversation.tools),
      .opened_by_prompt = opens_reasoning(format.reasoning, *prompt, tokenizer),
      .parallel_calls = request.parallel_tool_calls,
      .seed = random_seed(),  // not the request's: ids differ from answer to answer
  };
  request.generation.shown_special = format_token_ids(format, tokenizer);
  AnswerPlan plan =
      plan_choices(make_answer_head("chatcmpl-", model.name), request, {*std::move(prompt)});
  plan.writer = make_chat_writer(plan.head, request, std::move(parser), tokenizer);
  return plan;
}

}  // namespace penstock
