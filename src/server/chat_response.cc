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

// What a choice says in one chunk, in words: see ChunkWriter.
std::string choice_text(size_t index, const OrderedJson& delta, const OrderedJson& logprobs,
                        std::string_view finish_reason = {}) {
  const std::string reason = finish_reason.empty() ? "null" : fmt::format("\"{}\"", finish_reason);
  return fmt::format(R"({{"index":{},"delta":{},"logprobs":{},"finish_reason":{}}})", index,
                     dump_answer(delta), logprobs.is_null() ? "null" : dump_answer(logprobs),
                     reason);
}

class ChatEvents : public AnswerWriter {
 public:
  ChatEvents(const AnswerHead& head, std::vector<ChatChoice> choices, bool include_usage,
             const Tokenizer& tokenizer)
      : writer_(head, "chat.completion.chunk", include_usage),
        choices_(std::move(choices)),
        tokenizer_(tokenizer) {}

  std::string begin() override {
    std::string events;
    for (size_t i = 0; i < choices_.size(); ++i) {
      events += writer_.chunk(choice_text(i, {{"role", "assistant"}, {"content", ""}}, nullptr));
    }
    return events;
  }

  std::string push(size_t choice, const OutputUpdate& update) override {
    const ChoicePart part = choices_[choice].push(update);
    std::string events;
    if (!part.delta.empty() || !part.tokens.empty()) {
      events += writer_.chunk(choice_text(choice, delta_object(part.delta),
                                          logprobs_object(logprob_items(part.tokens, tokenizer_))));
    }
    if (!part.finish_reason.empty()) {
      events +=
          writer_.chunk(choice_text(choice, OrderedJson::object(), nullptr, part.finish_reason));
    }
    return events;
  }

  bool is_satisfied(size_t choice) const override { return choices_[choice].is_satisfied(); }

  std::string end(const Usage& usage) override {
    return writer_.usage_chunk(usage).append(kLastEvent);
  }

 private:
  const ChunkWriter writer_;
  std::vector<ChatChoice> choices_;
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
  return std::make_unique<ChatEvents>(head, std::move(choices), request.include_usage, tokenizer);
}

}  // namespace penstock
