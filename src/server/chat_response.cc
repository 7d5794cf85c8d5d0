#include "server/chat_response.h"

#include <string>
#include <utility>
#include <vector>

#include "server/chat_choice.h"
#include "server/chat_json.h"

namespace penstock {
namespace {

std::vector<ChatChoice> make_choices(size_t n, AnswerParserOptions parser) {
  std::vector<ChatChoice> choices;
  for (size_t i = 0; i < n; ++i) {
    choices.emplace_back(parser);
    ++parser.seed;
  }
  return choices;
}

// null, as OpenAI has it, where there are none.
OrderedJson logprobs_object(OrderedJson items) {
  if (items.empty()) return nullptr;
  return {{"content", std::move(items)}, {"refusal", nullptr}};
}

class ChatEvents : public AnswerWriter {
 public:
  ChatEvents(AnswerHead head, std::vector<ChatChoice> choices, bool include_usage,
             const Tokenizer& tokenizer)
      : head_(std::move(head)),
        choices_(std::move(choices)),
        include_usage_(include_usage),
        tokenizer_(tokenizer) {}

  std::string begin() override {
    std::string events;
    for (size_t i = 0; i < choices_.size(); ++i) {
      events +=
          chunk(one_choice(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr), nullptr);
    }
    return events;
  }

  std::string push(size_t choice, const OutputUpdate& update) override {
    const ChoicePart part = choices_[choice].push(update);
    std::string events;
    if (!part.delta.empty() || !part.tokens.empty()) {
      events += chunk(one_choice(choice, delta_object(part.delta),
                                 logprobs_object(logprob_items(part.tokens, tokenizer_)), nullptr),
                      nullptr);
    }
    if (!part.finish_reason.empty()) {
      events +=
          chunk(one_choice(choice, OrderedJson::object(), nullptr, part.finish_reason), nullptr);
    }
    return events;
  }

  bool is_satisfied(size_t choice) const override { return choices_[choice].is_satisfied(); }

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

  static OrderedJson one_choice(size_t index, OrderedJson delta, OrderedJson logprobs,
                                OrderedJson finish_reason) {
    return OrderedJson::array({{{"index", index},
                                {"delta", std::move(delta)},
                                {"logprobs", std::move(logprobs)},
                                {"finish_reason", std::move(finish_reason)}}});
  }

  const AnswerHead head_;
  std::vector<ChatChoice> choices_;
  const bool include_usage_;
  const Tokenizer& tokenizer_;
};

class ChatBody : public AnswerWriter {
 public:
  ChatBody(AnswerHead head, std::vector<ChatChoice> choices, const Tokenizer& tokenizer)
      : head_(std::move(head)), tokenizer_(tokenizer) {
    for (ChatChoice& choice : choices) choices_.push_back({.output = std::move(choice)});
  }

  std::string begin() override { return {}; }

  std::string push(size_t choice, const OutputUpdate& update) override {
    const ChoicePart part = choices_[choice].output.push(update);
    choices_[choice].message.add(part.delta);
    for (OrderedJson& item : logprob_items(part.tokens, tokenizer_)) {
      choices_[choice].logprobs.push_back(std::move(item));
    }
    if (!part.finish_reason.empty()) choices_[choice].finish_reason = part.finish_reason;
    return {};
  }

  bool is_satisfied(size_t choice) const override { return choices_[choice].output.is_satisfied(); }

  std::string end(const Usage& usage) override {
    OrderedJson object = head_object(head_, "chat.completion");
    object["choices"] = OrderedJson::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      object["choices"].push_back({{"index", i},
                                   {"message", choices_[i].message.object()},
                                   {"logprobs", logprobs_object(std::move(choices_[i].logprobs))},
                                   {"finish_reason", choices_[i].finish_reason}});
    }
    object["usage"] = usage_object(usage);
    return dump_answer(object);
  }

 private:
  struct Choice {
    ChatChoice output;
    ChatMessage message = {};
    OrderedJson logprobs = OrderedJson::array();
    std::string_view finish_reason = {};
  };

  const AnswerHead head_;
  std::vector<Choice> choices_;
  const Tokenizer& tokenizer_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerHead head, const ChatRequest& request,
                                               AnswerParserOptions parser,
                                               const Tokenizer& tokenizer) {
  std::vector<ChatChoice> choices = make_choices(static_cast<size_t>(request.n), std::move(parser));
  if (!request.stream) {
    return std::make_unique<ChatBody>(std::move(head), std::move(choices), tokenizer);
  }
  return std::make_unique<ChatEvents>(std::move(head), std::move(choices), request.include_usage,
                                      tokenizer);
}

}  // namespace penstock
