// POST /v1/chat/completions.
#pragma once

#include "server/answer.h"

namespace penstock {

Result<AnswerPlan> plan_chat(std::string_view body, const ServedModel& model);

inline constexpr AnswerRoute kChatRoute = {
    .path = "/v1/chat/completions", .plan = plan_chat, .prompt_field = "messages"};

}  // namespace penstock
