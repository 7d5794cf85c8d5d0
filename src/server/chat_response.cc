#include "server/chat_response.h"

#include <chrono>
#include <random>
#include <utility>

#include "base/json.h"
#include "base/version.h"
#include "server/error_response.h"

namespace penstock {
namespace {

std::string fingerprint() { return fmt::format("penstock-{}-{}", version(), commit()); }

OrderedJson head_object(const AnswerHead& head, std::string_view kind) {
  return {{"id", head.id},
          {"object", kind},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", fingerprint()}};
}

OrderedJson usage_object(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

std::string dump(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string event(std::string_view data) { return fmt::format("data: {}\n\n", data); }

std::string chunk(const AnswerHead& head, OrderedJson choices, OrderedJson usage,
                  bool include_usage) {
  OrderedJson object = head_object(head, "chat.completion.chunk");
  object["choices"] = std::move(choices);
  if (include_usage) object["usage"] = std::move(usage);
  return event(dump(object));
}

OrderedJson one_choice(OrderedJson delta, OrderedJson finish_reason) {
  return OrderedJson::array({{{"index", 0},
                              {"delta", std::move(delta)},
                              {"logprobs", nullptr},
                              {"finish_reason", std::move(finish_reason)}}});
}

}  // namespace

AnswerHead make_answer_head(std::string_view model) {
  std::random_device random;
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return {.id = fmt::format("chatcmpl-{:08x}{:08x}{:08x}", random(), random(), random()),
          .model = std::string(model),
          .created = std::chrono::duration_cast<std::chrono::seconds>(since_1970).count()};
}

std::string chat_completion(const AnswerHead& head, std::string_view text, const OutputEnd& end) {
  OrderedJson object = head_object(head, "chat.completion");
  object["choices"] = OrderedJson::array({{{"index", 0},
                                           {"message", {{"role", "assistant"}, {"content", text}}},
                                           {"logprobs", nullptr},
                                           {"finish_reason", to_string(end.reason)}}});
  object["usage"] = usage_object(end.usage);
  return dump(object);
}

std::string ChatEvents::begin() const {
  return chunk(head_, one_choice({{"role", "assistant"}, {"content", ""}}, nullptr), nullptr,
               include_usage_);
}

std::string ChatEvents::text(std::string_view piece) const {
  return chunk(head_, one_choice({{"content", piece}}, nullptr), nullptr, include_usage_);
}

std::string ChatEvents::end(const OutputEnd& end) const {
  std::string events = chunk(head_, one_choice(OrderedJson::object(), to_string(end.reason)),
                             nullptr, include_usage_);
  if (include_usage_) {
    events += chunk(head_, OrderedJson::array(), usage_object(end.usage), include_usage_);
  }
  return events + event("[DONE]");
}

std::string ChatEvents::error(const Error& error) { return event(error_body(error)); }

}  // namespace penstock
