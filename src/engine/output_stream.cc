#include "engine/output_stream.h"

#include <utility>

#include "text/detokenizer.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace penstock {
namespace {

FinishReason finish_reason(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
      return FinishReason::kStop;
    case EndReason::kLength:
      return FinishReason::kLength;
    case EndReason::kAborted:
      return FinishReason::kAborted;
  }
  return FinishReason::kAborted;
}

}  // namespace

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAborted:
      return "aborted";
  }
  return "aborted";
}

struct OutputStream::Text {
  Text(const Tokenizer& tokenizer, StopStrings stop_strings)
      : detokenizer(tokenizer, /*skip_special=*/true), stops(std::move(stop_strings)) {}

  Detokenizer detokenizer;
  StopStrings stops;
};

Result<OutputStream> OutputStream::create(const Tokenizer& tokenizer,
                                          const GenerationRequest& request) {
  PENSTOCK_ASSIGN(StopStrings stops, StopStrings::create(request.stop));
  return OutputStream(std::make_unique<Text>(tokenizer, std::move(stops)),
                      static_cast<int64_t>(request.prompt.size()));
}

OutputStream::OutputStream(std::unique_ptr<Text> text, int64_t n_prompt)
    : text_(std::move(text)), usage_{.prompt_tokens = n_prompt} {}
OutputStream::OutputStream(OutputStream&&) noexcept = default;
OutputStream& OutputStream::operator=(OutputStream&&) noexcept = default;
OutputStream::~OutputStream() = default;

OutputUpdate OutputStream::push(const Event& event) {
  if (const auto* begin = std::get_if<BeginEvent>(&event)) {
    usage_.cached_tokens = begin->n_prompt_cached;
    return {};
  }
  if (const auto* token = std::get_if<TokenEvent>(&event)) return push_token(token->id);
  if (const auto* end = std::get_if<RequestEnd>(&event)) return push_end(*end);
  return {.end = std::unexpected(std::get<Error>(event))};
}

OutputUpdate OutputStream::push_token(int32_t id) {
  ++usage_.completion_tokens;
  OutputUpdate update{.text = text_->stops.push(text_->detokenizer.push(id))};
  if (text_->stops.stopped()) update.end = OutputEnd{FinishReason::kStop, usage_};
  return update;
}

OutputUpdate OutputStream::push_end(const RequestEnd& end) {
  if (end.stop_id) ++usage_.completion_tokens;
  OutputUpdate update{.text = text_->stops.push(text_->detokenizer.finish())};
  const bool stopped = text_->stops.stopped();
  if (!stopped) update.text += text_->stops.finish();
  update.end = OutputEnd{stopped ? FinishReason::kStop : finish_reason(end.reason), usage_};
  return update;
}

}  // namespace penstock
