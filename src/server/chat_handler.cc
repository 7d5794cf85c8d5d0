#include "server/chat_handler.h"

#include <utility>

#include "server/chat_request.h"
#include "server/chat_response.h"

namespace penstock {

Result<AnswerPlan> plan_chat(std::string_view body, const ServedModel& model) {
  PENSTOCK_ASSIGN(const ChatRequest request, parse_chat_request(body));
  PENSTOCK_TRY(check_model(request.model, model));
  auto prompt = model.chat->format(request.conversation, local_now());
  if (!prompt) {
    Error error = std::move(prompt).error();
    error.param = "messages";
    return std::unexpected(std::move(error));
  }
  AnswerPlan plan =
      plan_choices(make_answer_head("chatcmpl-", model.name), request, {*std::move(prompt)});
  plan.writer = make_chat_writer(plan.head, request);
  return plan;
}

}  // namespace penstock
