#include "server/completion_response.h"

#include <utility>

#include "server/completion_logprobs.h"

namespace penstock {
namespace {

constexpr std::string_view kKind = "text_completion";

OrderedJson choice_object(size_t index, std::string_view text, OrderedJson logprobs,
                          OrderedJson finish_reason) {
  return {{"index", index},
          {"text", text},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", std::move(finish_reason)}};
}

// The log probabilities of every choice; none at all where they were not asked for.
std::vector<CompletionLogprobs> make_logprobs(const CompletionRequest& request, size_t n_choices,
                                              const Tokenizer& tokenizer) {
  std::vector<CompletionLogprobs> all;
  if (!request.generation.sampling.n_top_logprobs) return all;
  for (size_t i = 0; i < n_choices; ++i) all.emplace_back(tokenizer);
  return all;
}

class CompletionEvents : public AnswerWriter {
 public:
  CompletionEvents(const AnswerHead& head, bool include_usage, std::vector<std::string> echoes,
                   std::vector<CompletionLogprobs> logprobs)
      : writer_(head, kKind, include_usage),
        echoes_(std::move(echoes)),
        logprobs_(std::move(logprobs)) {}

  std::string begin() override {
    std::string events;
    for (size_t i = 0; i < echoes_.size(); ++i) {
      if (!echoes_[i].empty()) events += chunk(choice_object(i, echoes_[i], nullptr, nullptr));
    }
    return events;
  }

  std::string push(size_t choice, const OutputUpdate& update) override {
    if (update.text.empty() && update.tokens.empty() && !update.end) return {};
    OrderedJson reason;
    if (update.end) reason = to_string((*update.end)->reason);
    OrderedJson logprobs;
    if (!logprobs_.empty()) {
      LogprobLists lists;
      logprobs_[choice].append(update.tokens, lists);
      logprobs = lists.object();
    }
    return chunk(choice_object(choice, update.text, std::move(logprobs), std::move(reason)));
  }

  std::string end(const Usage& usage) override {
    return writer_.usage_chunk(usage).append(kLastEvent);
  }

 private:
  std::string chunk(const OrderedJson& choice) const { return writer_.chunk(dump_answer(choice)); }

  const ChunkWriter writer_;
  const std::vector<std::string> echoes_;
  std::vector<CompletionLogprobs> logprobs_;  // of each choice, or none
};

class CompletionBody : public AnswerWriter {
 public:
  CompletionBody(AnswerHead head, std::vector<std::string> echoes,
                 std::vector<CompletionLogprobs> logprobs)
      : head_(std::move(head)),
        texts_(std::move(echoes)),
        reasons_(texts_.size()),
        logprobs_(std::move(logprobs)),
        lists_(logprobs_.size()) {}

  std::string begin() override { return {}; }

  std::string push(size_t choice, const OutputUpdate& update) override {
    texts_[choice] += update.text;
    if (!logprobs_.empty()) logprobs_[choice].append(update.tokens, lists_[choice]);
    if (update.end) reasons_[choice] = (*update.end)->reason;
    return {};
  }

  std::string end(const Usage& usage) override {
    OrderedJson object = head_object(head_, kKind);
    object["choices"] = OrderedJson::array();
    for (size_t i = 0; i < texts_.size(); ++i) {
      OrderedJson logprobs;
      if (!lists_.empty()) logprobs = lists_[i].object();
      object["choices"].push_back(
          choice_object(i, texts_[i], std::move(logprobs), to_string(reasons_[i])));
    }
    object["usage"] = usage_object(usage);
    return dump_answer(object);
  }

 private:
  const AnswerHead head_;
  std::vector<std::string> texts_;  // of the choices, what was echoed included
  std::vector<FinishReason> reasons_;
  std::vector<CompletionLogprobs> logprobs_;  // of each choice, or none
  std::vector<LogprobLists> lists_;           // likewise
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completion_writer(AnswerHead head,
                                                     const CompletionRequest& request,
                                                     std::vector<std::string> echoes,
                                                     const Tokenizer& tokenizer) {
  std::vector<CompletionLogprobs> logprobs = make_logprobs(request, echoes.size(), tokenizer);
  if (!request.stream) {
    return std::make_unique<CompletionBody>(std::move(head), std::move(echoes),
                                            std::move(logprobs));
  }
  return std::make_unique<CompletionEvents>(head, request.include_usage, std::move(echoes),
                                            std::move(logprobs));
}

}  // namespace penstock
