#include "server/chat_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/json.h"
#include "engine/json_fields.h"

namespace penstock {
namespace {

// An object's keys are looked through one by one (their order is kept): bounded, so that no body
// costs the square of its size. No tool's schema comes near.
constexpr size_t kMaxKeys = 1024;
constexpr size_t kMaxStops = 16;

Result<void> read_sampling(const JsonFields& fields, ChatRequest& request) {
  SamplingOptions& sampling = request.generation.sampling;
  const std::pair<std::string_view, double*> numbers[] = {
      {"temperature", &sampling.temperature},
      {"top_p", &sampling.top_p},
      {"min_p", &sampling.min_p},
      {"repetition_penalty", &sampling.repetition_penalty},
      {"presence_penalty", &sampling.presence_penalty},
      {"frequency_penalty", &sampling.frequency_penalty},
  };
  for (const auto& [name, target] : numbers) {
    PENSTOCK_ASSIGN(const auto number, fields.number(name));
    if (number) *target = *number;
  }
  PENSTOCK_ASSIGN(const auto top_k, fields.integer("top_k"));
  if (top_k) sampling.top_k = *top_k == -1 ? 0 : *top_k;  // -1 is how some clients say "all"
  PENSTOCK_ASSIGN(const auto seed, fields.integer("seed"));
  if (seed) request.seed = static_cast<uint64_t>(*seed);
  return validate(sampling);
}

Result<void> read_length(const JsonFields& fields, GenerationRequest& generation) {
  PENSTOCK_ASSIGN(const auto old_name, fields.integer("max_tokens"));
  PENSTOCK_ASSIGN(const auto new_name, fields.integer("max_completion_tokens"));
  const auto max_tokens = new_name ? new_name : old_name;
  if (!max_tokens) return {};
  if (*max_tokens < 1) {
    return refuse_field(ErrorKind::kInvalidArgument,
                        new_name ? "max_completion_tokens" : "max_tokens",
                        fmt::format("must be at least 1, but is {}", *max_tokens));
  }
  generation.max_tokens = *max_tokens;
  return {};
}

Result<void> read_stops(const JsonFields& fields, GenerationRequest& generation) {
  PENSTOCK_ASSIGN(generation.stop, fields.texts("stop"));
  if (generation.stop.size() > kMaxStops) {
    return refuse_field(
        ErrorKind::kInvalidArgument, "stop",
        fmt::format("has {} strings, but may have at most {}", generation.stop.size(), kMaxStops));
  }
  PENSTOCK_ASSIGN(const auto stop_ids, fields.integers("stop_token_ids"));
  for (const int64_t id : stop_ids) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return refuse_field(ErrorKind::kInvalidArgument, "stop_token_ids",
                          fmt::format("has {}, which is no token id", id));
    }
    generation.stop_ids.push_back(static_cast<int32_t>(id));
  }
  PENSTOCK_ASSIGN(const auto ignore_eos, fields.flag("ignore_eos"));
  generation.ignore_eos = ignore_eos.value_or(false);
  return {};
}

Result<void> read_streaming(const JsonFields& fields, ChatRequest& request) {
  PENSTOCK_ASSIGN(const auto stream, fields.flag("stream"));
  request.stream = stream.value_or(false);
  PENSTOCK_ASSIGN(const OrderedJson* options, fields.object("stream_options"));
  if (options == nullptr) return {};
  PENSTOCK_ASSIGN(const auto include_usage,
                  JsonFields(*options, "stream_options.").flag("include_usage"));
  request.include_usage = include_usage.value_or(false);
  return {};
}

std::unexpected<Error> not_yet(std::string_view field, std::string_view what) {
  return refuse_field(ErrorKind::kUnsupported, field, fmt::format("{} is not supported yet", what));
}

// What would change the answer if we knew how.
Result<void> refuse_unsupported(const JsonFields& fields) {
  PENSTOCK_ASSIGN(const auto n, fields.integer("n"));
  if (n && *n < 1) {
    return refuse_field(ErrorKind::kInvalidArgument, "n",
                        fmt::format("must be at least 1, but is {}", *n));
  }
  if (n && *n > 1) return not_yet("n", "above 1");
  PENSTOCK_ASSIGN(const auto logprobs, fields.flag("logprobs"));
  if (logprobs.value_or(false)) return not_yet("logprobs", "true");
  PENSTOCK_ASSIGN(const auto top_logprobs, fields.integer("top_logprobs"));
  if (top_logprobs.value_or(0) != 0) return not_yet("top_logprobs", "above 0");
  PENSTOCK_ASSIGN(const OrderedJson* bias, fields.object("logit_bias"));
  if (bias != nullptr && !bias->empty()) return not_yet("logit_bias", "other than empty");
  PENSTOCK_ASSIGN(const OrderedJson* format, fields.object("response_format"));
  if (format != nullptr) {
    PENSTOCK_ASSIGN(const auto type, JsonFields(*format, "response_format.").text("type"));
    if (type.value_or("text") != "text") {
      return not_yet("response_format", fmt::format("type \"{}\"", *type));
    }
  }
  for (const std::string_view name : {"functions", "audio", "prediction"}) {
    if (fields.find(name) != nullptr) return not_yet(name, "which was given,");
  }
  return {};
}

Result<void> read_tools(const JsonFields& fields, Conversation& conversation) {
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
  auto parsed = parse_ordered_json(body, {.max_keys = kMaxKeys});
  if (!parsed) return std::unexpected(parsed.error().in("the request body"));
  if (!parsed->is_object()) {
    return fail(ErrorKind::kInvalidArgument, "the request body must be an object, but is {}",
                parsed->type_name());
  }
  const JsonFields fields(*parsed);
  ChatRequest request;
  const OrderedJson* messages = fields.find("messages");
  if (messages == nullptr) {
    return refuse_field(ErrorKind::kInvalidArgument, "messages", "is missing");
  }
  request.conversation.messages = *messages;
  PENSTOCK_ASSIGN(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  PENSTOCK_TRY(read_sampling(fields, request));
  PENSTOCK_TRY(read_length(fields, request.generation));
  PENSTOCK_TRY(read_stops(fields, request.generation));
  PENSTOCK_TRY(read_streaming(fields, request));
  PENSTOCK_TRY(refuse_unsupported(fields));
  PENSTOCK_TRY(read_tools(fields, request.conversation));
  PENSTOCK_TRY(normalize(request.conversation));
  return request;
}

}  // namespace penstock
