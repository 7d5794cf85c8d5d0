#include "engine/chat.h"

#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

// As a template sees it: OpenAI's newer name for the same role, where the template does not know
// it.
void rename_developer(OrderedJson& messages) {
  for (OrderedJson& message : messages) {
    if (message["role"] == "developer") message["role"] = "system";
  }
}

OrderedJson guard_message(const OrderedJson& message, const ControlText& control_text,
                          std::string_view barrier) {
  const Author author = message["role"] == "assistant" ? Author::kAssistant : Author::kClient;
  OrderedJson guarded = control_text.guard_all(message, barrier, author);
  guarded["role"] = message["role"];  // one of a few words of ours, which templates put into tokens
  return guarded;
}

}  // namespace

std::chrono::local_seconds local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return std::chrono::local_seconds(std::chrono::seconds(now + local.tm_gmtoff));
}

ChatFormatter::ChatFormatter(TextSetup text)
    : text_(std::move(text)),
      control_text_(*text_.tokenizer, text_.template_source),
      answer_format_(choose_answer_format({}, text_.template_source, *text_.tokenizer).value()) {}

ChatFormatter::ChatFormatter(TextSetup text, AnswerFormat answer_format)
    : text_(std::move(text)),
      control_text_(*text_.tokenizer, text_.template_source),
      answer_format_(answer_format) {}

Result<std::vector<int32_t>> ChatFormatter::format(const Conversation& conversation,
                                                   std::chrono::local_seconds now) const {
  if (!text_.chat_template) {
    return fail(ErrorKind::kUnsupported, "this model has no chat template");
  }
  constexpr auto kReplace = OrderedJson::error_handler_t::replace;
  const auto barrier =
      find_barrier(text_.template_source + conversation.messages.dump(-1, ' ', false, kReplace) +
                   conversation.tools.dump(-1, ' ', false, kReplace));
  if (!barrier) {
    return fail(ErrorKind::kInvalidArgument,
                "the messages have every one of the characters U+FDD0 to U+FDEF, of which one is "
                "needed to keep them apart from the template");
  }
  const auto prompt = text_.chat_template->render(template_inputs(conversation, *barrier), now);
  if (!prompt) {
    Error error = prompt.error();
    // It is this conversation that is too much: a later try will not help.
    if (error.kind == ErrorKind::kExhausted) error.kind = ErrorKind::kInvalidArgument;
    return std::unexpected(std::move(error));
  }
  return text_.tokenizer->encode(*prompt, {.add_special = false, .barrier = *barrier});
}

OrderedJson ChatFormatter::template_inputs(const Conversation& conversation,
                                           std::string_view barrier) const {
  OrderedJson messages = OrderedJson::array();
  for (const OrderedJson& message : conversation.messages) {
    messages.push_back(guard_message(message, control_text_, barrier));
  }
  if (text_.template_source.find("developer") == std::string::npos) rename_developer(messages);
  OrderedJson inputs = {{"messages", std::move(messages)},
                        {"tools", nullptr},
                        {"add_generation_prompt", true},
                        {"bos_token", text_.bos_token},
                        {"eos_token", text_.eos_token}};
  if (!conversation.tools.empty()) {
    inputs["tools"] = control_text_.guard_all(conversation.tools, barrier, Author::kClient);
  }
  return inputs;
}

}  // namespace penstock
