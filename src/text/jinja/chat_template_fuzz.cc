// Any text as a chat template: parsing and rendering give text or an error, within the limits.
#include <cstdint>

#include "base/check.h"
#include "text/chat_template.h"

namespace penstock {
namespace {

// Something of every kind that templates are given.
const OrderedJson& inputs() {
  static const OrderedJson json = OrderedJson::parse(R"({
    "messages": [
      {"role": "system", "content": " Be brief. "},
      {"role": "user", "content": [{"type": "text", "text": "Zürich 😀"}, {"type": "image"}]},
      {"role": "assistant", "content": "<think>hm</think>4", "tool_calls": [
        {"id": "call00001", "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null, "<&>"]}}}]},
      {"role": "tool", "content": "{}", "name": "f"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {
      "type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "x": {"b": 1, "A": -3}, "l": [3, 1, 2], "s": "a B"})");
  return json;
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  constexpr TemplateLimits kTight = {.max_output_bytes = 1 << 16,
                                     .max_memory_bytes = 1 << 20,
                                     .max_steps = 20'000,
                                     .max_depth = 60};
  const auto chat =
      ChatTemplate::parse(std::string_view(reinterpret_cast<const char*>(data), size), kTight);
  if (!chat) return 0;
  const auto text = chat->render(inputs(), std::chrono::local_seconds());
  if (text) PENSTOCK_CHECK(text->size() <= kTight.max_output_bytes, "the output passed its limit");
  return 0;
}
