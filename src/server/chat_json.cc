#include "server/chat_json.h"

#include <utility>

#include "text/tokenizer.h"

namespace penstock {
namespace {

OrderedJson call_delta(const ToolCallDelta& call) {
  if (call.id.empty()) {
    return {{"index", call.index}, {"function", {{"arguments", call.arguments}}}};
  }
  return {{"index", call.index},
          {"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

OrderedJson whole_call(const ToolCallDelta& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

OrderedJson logprob_item(int32_t id, float logprob, const Tokenizer& tokenizer) {
  const std::string token = tokenizer.token_bytes(id);
  OrderedJson bytes = OrderedJson::array();
  for (const char byte : token) bytes.push_back(static_cast<uint8_t>(byte));
  return {{"token", token}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

}  // namespace

OrderedJson delta_object(const AnswerDelta& delta) {
  OrderedJson object = OrderedJson::object();
  if (!delta.reasoning.empty()) object["reasoning_content"] = delta.reasoning;
  if (!delta.content.empty()) object["content"] = delta.content;
  if (delta.calls.empty()) return object;
  OrderedJson calls = OrderedJson::array();
  for (const ToolCallDelta& call : delta.calls) calls.push_back(call_delta(call));
  object["tool_calls"] = std::move(calls);
  return object;
}

void ChatMessage::add(const AnswerDelta& delta) {
  whole_.reasoning += delta.reasoning;
  whole_.content += delta.content;
  for (const ToolCallDelta& call : delta.calls) {
    if (call.index < whole_.calls.size()) {
      whole_.calls[call.index].arguments += call.arguments;
    } else {
      whole_.calls.push_back(call);
    }
  }
}

OrderedJson ChatMessage::object() const {
  OrderedJson message = {{"role", "assistant"}, {"content", whole_.content}};
  if (!whole_.reasoning.empty()) message["reasoning_content"] = whole_.reasoning;
  if (whole_.calls.empty()) return message;
  if (whole_.content.empty()) message["content"] = nullptr;
  OrderedJson calls = OrderedJson::array();
  for (const ToolCallDelta& call : whole_.calls) calls.push_back(whole_call(call));
  message["tool_calls"] = std::move(calls);
  return message;
}

OrderedJson logprob_items(std::span<const TokenEvent> tokens, const Tokenizer& tokenizer) {
  OrderedJson items = OrderedJson::array();
  for (const TokenEvent& token : tokens) {
    OrderedJson item = logprob_item(token.id, token.logprob.value_or(kLeastLogprob), tokenizer);
    item["top_logprobs"] = OrderedJson::array();
    for (const TokenLogprob& other : token.top) {
      item["top_logprobs"].push_back(logprob_item(other.id, other.logprob, tokenizer));
    }
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace penstock
