#include "engine/output_stream.h"

#include <algorithm>
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
  Text(const Tokenizer& tokenizer_in, StopStrings stop_strings, std::vector<int32_t> shown)
      : tokenizer(tokenizer_in),
        detokenizer(tokenizer_in, /*skip_special=*/false),
        stops(std::move(stop_strings)),
        shown_special(std::move(shown)) {}

  std::string push(int32_t id) {
    const bool hidden =
        tokenizer.is_special(id) && std::ranges::find(shown_special, id) == shown_special.end();
    return hidden ? std::string() : detokenizer.push(id);
  }

  Tokenizer tokenizer;  // a copy shares everything
  Detokenizer detokenizer;
  StopStrings stops;
  std::vector<int32_t> shown_special;
};

Result<OutputStream> OutputStream::create(const Tokenizer& tokenizer,
                                          const GenerationRequest& request) {
  PENSTOCK_ASSIGN(StopStrings stops, StopStrings::create(request.stop));
  auto text = std::make_unique<Text>(tokenizer, std::move(stops), request.shown_special);
  return OutputStream(std::move(text), static_cast<int64_t>(request.prompt.size()));
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
  if (const auto* token = std::get_if<TokenEvent>(&event)) return push_token(*token);
  if (const auto* end = std::get_if<RequestEnd>(&event)) return push_end(*end);
  return {.end = std::unexpected(std::get<Error>(event))};
}

OutputUpdate OutputStream::push_token(const TokenEvent& token) {
  ++usage_.completion_tokens;
  const std::string text = text_->push(token.id);
  if (token.logprob) pending_.push_back({token, n_text_, n_text_ + text.size()});
  n_text_ += text.size();
  OutputUpdate update{.text = text_->stops.push(text)};
  if (text_->stops.stopped()) update.end = OutputEnd{FinishReason::kStop, usage_};
  take_shown_tokens(update);
  return update;
}

OutputUpdate OutputStream::push_end(const RequestEnd& end) {
  if (end.stop_id) ++usage_.completion_tokens;
  OutputUpdate update{.text = text_->stops.push(text_->detokenizer.finish())};
  const bool stopped = text_->stops.stopped();
  if (!stopped) update.text += text_->stops.finish();
  update.end = OutputEnd{stopped ? FinishReason::kStop : finish_reason(end.reason), usage_};
  take_shown_tokens(update);
  return update;
}

void OutputStream::take_shown_tokens(OutputUpdate& update) {
  n_shown_ += update.text.size();
  const auto is_shown = [&](const PendingToken& pending) {
    // At the end, a token of which a stop string left a part is shown too.
    return pending.text_end <= n_shown_ || (update.end && pending.text_begin < n_shown_);
  };
  while (!pending_.empty() && is_shown(pending_.front())) {
    update.tokens.push_back(std::move(pending_.front().token));
    pending_.pop_front();
  }
}

}  // namespace penstock
