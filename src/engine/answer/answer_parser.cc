#include "engine/answer/answer_parser.h"

#include <optional>
#include <utility>

namespace penstock {

struct AnswerParser::Parts {
  explicit Parts(AnswerParserOptions given)
      : tools(std::move(given.tools)),
        parallel_calls(given.parallel_calls),
        reasoning(given.format.reasoning, given.opened_by_prompt),
        // Mistral's templates take ids of nine characters only.
        deltas({.seed = given.seed,
                .prefix = given.format.tools == ToolForm::kMistral ? "" : "call_"}) {
    if (!tools.empty() && given.format.tools != ToolForm::kNone) {
      calls.emplace(given.format.tools, tools);
    }
  }

  bool is_satisfied() const { return !parallel_calls && deltas.n_calls() > 0 && !deltas.in_call(); }
  void push_content(std::string_view content);

  const DeclaredTools tools;
  const bool parallel_calls;
  ReasoningSplitter reasoning;
  DeltaCollector deltas;
  std::optional<CallScanner> calls;
};

AnswerParser::AnswerParser(AnswerParserOptions options)
    : parts_(std::make_unique<Parts>(std::move(options))) {}
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;
AnswerParser::~AnswerParser() = default;

void AnswerParser::Parts::push_content(std::string_view content) {
  if (!calls) return deltas.content(content);
  for (const char byte : content) {
    if (is_satisfied()) return;
    calls->push(byte, deltas);
  }
}

AnswerDelta AnswerParser::push(std::string_view piece) {
  std::string thought;
  std::string content;
  for (const char byte : piece) parts_->reasoning.push(byte, thought, content);
  parts_->deltas.reasoning(thought);
  parts_->push_content(content);
  return parts_->deltas.take();
}

AnswerDelta AnswerParser::finish() {
  std::string thought;
  std::string content;
  parts_->reasoning.finish(thought, content);
  parts_->deltas.reasoning(thought);
  parts_->push_content(content);
  if (parts_->calls && !is_satisfied()) parts_->calls->finish(parts_->deltas);
  return parts_->deltas.take();
}

bool AnswerParser::is_satisfied() const { return parts_->is_satisfied(); }

bool AnswerParser::has_calls() const { return parts_->deltas.n_calls() > 0; }

bool AnswerParser::is_cut() const { return parts_->deltas.in_call(); }

}  // namespace penstock
