#include "server/chat_request.h"

#include <cstdint>
#include <string>
#include <utility>

#include "base/json.h"

namespace penstock {
namespace {

// What would change the answer if we knew how.
Result<void> refuse_unsupported(const JsonFields& fields) {
  PENSTOCK_ASSIGN(const OrderedJson* format, fields.object("response_format"));
  if (format != nullptr) {
    PENSTOCK_ASSIGN(const auto type, JsonFields(*format, "response_format.").text("type"));
    if (type.value_or("text") != "text") {
      return not_yet("response_format", fmt::format("type \"{}\"", *type));
    }
  }
  for (const std::string_view name : {"functions", "audio", "prediction"}) {
    if (fields.find(name) != nullptr) return not_yet(name);
  }
  return {};
}

Result<void> read_logprobs(const JsonFields& fields, SamplingOptions& sampling) {
  PENSTOCK_ASSIGN(const auto logprobs, fields.flag("logprobs"));
  PENSTOCK_ASSIGN(const auto top, fields.integer("top_logprobs"));
  if (top && (*top < 0 || *top > kMostTopLogprobs)) {
    return refuse_field(ErrorKind::kInvalidArgument, "top_logprobs",
                        fmt::format("must be from 0 to {}, but is {}", kMostTopLogprobs, *top));
  }
  if (logprobs.value_or(false)) {
    sampling.n_top_logprobs = static_cast<int>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    return refuse_field(ErrorKind::kInvalidArgument, "top_logprobs",
                        "may only be given where logprobs is true");
  }
  return {};
}

Result<void> read_tools(const JsonFields& fields, ChatRequest& request) {
  Conversation& conversation = request.conversation;
  PENSTOCK_ASSIGN(const auto parallel, fields.flag("parallel_tool_calls"));
  request.parallel_tool_calls = parallel.value_or(true);
  if (const OrderedJson* tools = fields.find("tools")) conversation.tools = *tools;
  const OrderedJson* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return {};
  if (*choice == "none") {
    conversation.tools = OrderedJson::array();
    return {};
  }
  if (*choice == "required" || choice->is_object()) {
    return not_yet("tool_choice", "other than \"auto\" and \"none\"");
  }
  return refuse_field(ErrorKind::kInvalidArgument, "tool_choice",
                      "must be \"auto\", \"none\", \"required\" or an object");
}

}  // namespace

Result<ChatRequest> parse_chat_request(std::string_view body) {
  PENSTOCK_ASSIGN(const OrderedJson parsed, parse_request_body(body));
  const JsonFields fields(parsed);
  ChatRequest request;
  const OrderedJson* messages = fields.find("messages");
  if (messages == nullptr) {
    return refuse_field(ErrorKind::kInvalidArgument, "messages", "is missing");
  }
  request.conversation.messages = *messages;
  PENSTOCK_ASSIGN(static_cast<GenerationFields&>(request), read_generation_fields(fields));
  PENSTOCK_TRY(refuse_unsupported(fields));
  PENSTOCK_TRY(read_logprobs(fields, request.generation.sampling));
  PENSTOCK_TRY(read_tools(fields, request));
  PENSTOCK_TRY(normalize(request.conversation));
  return request;
}

}  // namespace penstock
