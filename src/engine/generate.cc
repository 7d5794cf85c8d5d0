#include "engine/generate.h"

#include <memory>
#include <utility>

#include "engine/event_queue.h"

namespace penstock {

Result<OutputEnd> generate(Engine& engine, const Tokenizer& tokenizer, GenerationRequest request,
                           const std::function<bool(std::string_view piece)>& show) {
  PENSTOCK_ASSIGN(OutputStream output, OutputStream::create(tokenizer, request));
  const auto events = std::make_shared<EventQueue>();
  PENSTOCK_ASSIGN(RequestHandle handle, engine.submit(std::move(request), events));
  for (;;) {
    OutputUpdate update = output.push(events->pop());
    if (!update.text.empty() && !show(update.text)) handle.abort();
    if (update.end) return *std::move(update.end);
  }
}

}  // namespace penstock
