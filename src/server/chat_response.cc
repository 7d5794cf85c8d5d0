#include "server/chat_response.h"

#include <string>
#include <utility>
#include <vector>

namespace penstock {
namespace {

class ChatEvents : public AnswerWriter {
 public:
  ChatEvents(AnswerHead head, size_t n_choices, bool include_usage)
      : head_(std::move(head)), n_choices_(n_choices), include_usage_(include_usage) {}

  std::string begin() override {
    std::string events;
    for (size_t i = 0; i < n_choices_; ++i) {
      events += chunk(one_choice(i, {{"role", "assistant"}, {"content", ""}}, nullptr), nullptr);
    }
    return events;
  }

  std::string push(size_t choice, const OutputUpdate& update) override {
    std::string events;
    if (!update.text.empty()) {
      events += chunk(one_choice(choice, {{"content", update.text}}, nullptr), nullptr);
    }
    if (update.end) {
      events += chunk(one_choice(choice, OrderedJson::object(), to_string((*update.end)->reason)),
                      nullptr);
    }
    return events;
  }

  std::string end(const Usage& usage) override {
    std::string events;
    if (include_usage_) events = chunk(OrderedJson::array(), usage_object(usage));
    return events.append(kLastEvent);
  }

 private:
  std::string chunk(OrderedJson choices, OrderedJson usage) const {
    OrderedJson object = head_object(head_, "chat.completion.chunk");
    object["choices"] = std::move(choices);
    if (include_usage_) object["usage"] = std::move(usage);
    return event(dump_answer(object));
  }

  static OrderedJson one_choice(size_t index, OrderedJson delta, OrderedJson finish_reason) {
    return OrderedJson::array({{{"index", index},
                                {"delta", std::move(delta)},
                                {"logprobs", nullptr},
                                {"finish_reason", std::move(finish_reason)}}});
  }

  const AnswerHead head_;
  const size_t n_choices_;
  const bool include_usage_;
};

class ChatBody : public AnswerWriter {
 public:
  ChatBody(AnswerHead head, size_t n_choices) : head_(std::move(head)), choices_(n_choices) {}

  std::string begin() override { return {}; }

  std::string push(size_t choice, const OutputUpdate& update) override {
    choices_[choice].text += update.text;
    if (update.end) choices_[choice].reason = (*update.end)->reason;
    return {};
  }

  std::string end(const Usage& usage) override {
    OrderedJson object = head_object(head_, "chat.completion");
    object["choices"] = OrderedJson::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      object["choices"].push_back(
          {{"index", i},
           {"message", {{"role", "assistant"}, {"content", choices_[i].text}}},
           {"logprobs", nullptr},
           {"finish_reason", to_string(choices_[i].reason)}});
    }
    object["usage"] = usage_object(usage);
    return dump_answer(object);
  }

 private:
  struct Choice {
    std::string text = {};
    FinishReason reason = FinishReason::kStop;
  };

  const AnswerHead head_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerHead head, const ChatRequest& request) {
  const auto n_choices = static_cast<size_t>(request.n);
  if (!request.stream) return std::make_unique<ChatBody>(std::move(head), n_choices);
  return std::make_unique<ChatEvents>(std::move(head), n_choices, request.include_usage);
}

}  // namespace penstock
