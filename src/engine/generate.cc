#include "engine/generate.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "engine/event_queue.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kLongestSilence{50};

}  // namespace

Result<OutputEnd> generate(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                           const std::function<bool(std::string_view piece)>& show) {
  PENSTOCK_ASSIGN(OutputStream output, OutputStream::create(tokenizer, request));
  const auto events = std::make_shared<EventQueue>();
  PENSTOCK_ASSIGN(RequestHandle handle, engine.submit(std::move(request), events));
  bool wanted = true;
  for (;;) {
    const std::optional<Event> event = events->pop_within(kLongestSilence);
    OutputUpdate update = event ? output.push(*event) : OutputUpdate{};
    if (wanted && (!event || !update.text.empty())) {
      wanted = show(update.text);
      if (!wanted) handle.abort();
    }
    if (update.end) return *std::move(update.end);
  }
}

}  // namespace penstock
