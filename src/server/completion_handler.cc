#include "server/completion_handler.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/completion_request.h"
#include "server/completion_response.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

// Text that spells a control token is that token: who completes text writes the model's own format.
Result<std::vector<int32_t>> ids_of(const RawPrompt& prompt, const Tokenizer& tokenizer,
                                    bool add_special) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  return tokenizer.encode(std::get<std::string>(prompt), {.add_special = add_special});
}

std::string text_of(const RawPrompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return tokenizer.decode(std::get<std::vector<int32_t>>(prompt), /*skip_special=*/false);
}

}  // namespace

Result<AnswerPlan> plan_completion(std::string_view body, const ServedModel& model) {
  PENSTOCK_ASSIGN(const CompletionRequest request, parse_completion_request(body));
  PENSTOCK_TRY(check_model(request.model, model));
  const Tokenizer& tokenizer = model.chat->tokenizer();
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> echoes;
  for (const RawPrompt& prompt : request.prompts) {
    PENSTOCK_ASSIGN(prompts.emplace_back(), ids_of(prompt, tokenizer, request.add_special_tokens));
    const std::string echo = request.echo ? text_of(prompt, tokenizer) : "";
    echoes.insert(echoes.end(), static_cast<size_t>(request.n), echo);
  }
  AnswerPlan plan = plan_choices(make_answer_head("cmpl-", model.name), request, prompts);
  plan.writer = make_completion_writer(plan.head, request, std::move(echoes), tokenizer);
  return plan;
}

}  // namespace penstock
