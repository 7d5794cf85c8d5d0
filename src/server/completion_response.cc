#include "server/completion_response.h"

#include <utility>

namespace penstock {
namespace {

constexpr std::string_view kKind = "text_completion";

OrderedJson choice_object(size_t index, std::string_view text, OrderedJson finish_reason) {
  return {{"index", index},
          {"text", text},
          {"logprobs", nullptr},
          {"finish_reason", std::move(finish_reason)}};
}

class CompletionEvents : public AnswerWriter {
 public:
  CompletionEvents(AnswerHead head, bool include_usage, std::vector<std::string> echoes)
      : head_(std::move(head)), include_usage_(include_usage), echoes_(std::move(echoes)) {}

  std::string begin() override {
    std::string events;
    for (size_t i = 0; i < echoes_.size(); ++i) {
      if (!echoes_[i].empty()) events += chunk(choice_object(i, echoes_[i], nullptr));
    }
    return events;
  }

  std::string push(size_t choice, const OutputUpdate& update) override {
    if (update.text.empty() && !update.end) return {};
    OrderedJson reason;
    if (update.end) reason = to_string((*update.end)->reason);
    return chunk(choice_object(choice, update.text, std::move(reason)));
  }

  std::string end(const Usage& usage) override {
    std::string events;
    if (include_usage_) {
      OrderedJson object = head_object(head_, kKind);
      object["choices"] = OrderedJson::array();
      object["usage"] = usage_object(usage);
      events = event(dump_answer(object));
    }
    return events.append(kLastEvent);
  }

 private:
  std::string chunk(OrderedJson choice) const {
    OrderedJson object = head_object(head_, kKind);
    object["choices"] = OrderedJson::array({std::move(choice)});
    if (include_usage_) object["usage"] = nullptr;
    return event(dump_answer(object));
  }

  const AnswerHead head_;
  const bool include_usage_;
  const std::vector<std::string> echoes_;
};

class CompletionBody : public AnswerWriter {
 public:
  CompletionBody(AnswerHead head, std::vector<std::string> echoes)
      : head_(std::move(head)), texts_(std::move(echoes)), reasons_(texts_.size()) {}

  std::string begin() override { return {}; }

  std::string push(size_t choice, const OutputUpdate& update) override {
    texts_[choice] += update.text;
    if (update.end) reasons_[choice] = (*update.end)->reason;
    return {};
  }

  std::string end(const Usage& usage) override {
    OrderedJson object = head_object(head_, kKind);
    object["choices"] = OrderedJson::array();
    for (size_t i = 0; i < texts_.size(); ++i) {
      object["choices"].push_back(choice_object(i, texts_[i], to_string(reasons_[i])));
    }
    object["usage"] = usage_object(usage);
    return dump_answer(object);
  }

 private:
  const AnswerHead head_;
  std::vector<std::string> texts_;  // of the choices, what was echoed included
  std::vector<FinishReason> reasons_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completion_writer(AnswerHead head,
                                                     const CompletionRequest& request,
                                                     std::vector<std::string> echoes) {
  if (!request.stream) {
    return std::make_unique<CompletionBody>(std::move(head), std::move(echoes));
  }
  return std::make_unique<CompletionEvents>(std::move(head), request.include_usage,
                                            std::move(echoes));
}

}  // namespace penstock
