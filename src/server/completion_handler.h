// POST /v1/completions: text goes on, without a chat template.
#pragma once

#include "server/answer.h"

namespace penstock {

Result<AnswerPlan> plan_completion(std::string_view body, const ServedModel& model);

inline constexpr AnswerRoute kCompletionRoute = {.path = "/v1/completions",
                                                 .plan = plan_completion};

}  // namespace penstock
