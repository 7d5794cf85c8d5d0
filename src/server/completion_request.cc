#include "server/completion_request.h"

#include <limits>
#include <utility>

namespace penstock {
namespace {

// OpenAI's default: without one, a model that never ends would fill the context.
constexpr int64_t kDefaultMaxTokens = 16;

Result<RawPrompt> read_prompt(const OrderedJson& value, std::string_view path) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return read_ids(value, path);
  return wrong_type(path, "a string or a list of token ids", value);
}

// What would change the answer if we knew how.
Result<void> refuse_unsupported(const JsonFields& fields) {
  PENSTOCK_ASSIGN(const auto suffix, fields.text("suffix"));
  if (suffix && !suffix->empty()) return not_yet("suffix");
  PENSTOCK_ASSIGN(const auto best_of, fields.integer("best_of"));
  if (best_of && *best_of < 1) {
    return refuse_field(ErrorKind::kInvalidArgument, "best_of",
                        fmt::format("must be at least 1, but is {}", *best_of));
  }
  if (best_of && *best_of > 1) return not_yet("best_of", "above 1");
  if (fields.find("response_format") != nullptr) return not_yet("response_format");
  return {};
}

Result<void> read_logprobs(const JsonFields& fields, CompletionRequest& request) {
  PENSTOCK_ASSIGN(const auto logprobs, fields.integer("logprobs"));
  if (!logprobs) return {};
  if (*logprobs < 0 || *logprobs > kMostTopLogprobs) {
    return refuse_field(
        ErrorKind::kInvalidArgument, "logprobs",
        fmt::format("must be from 0 to {}, but is {}", kMostTopLogprobs, *logprobs));
  }
  // Those of the prompt would have to come with it, and no step computes them.
  if (request.echo) return not_yet("logprobs", "together with echo");
  request.generation.sampling.n_top_logprobs = static_cast<int>(*logprobs);
  return {};
}

}  // namespace

Result<std::vector<int32_t>> read_ids(const OrderedJson& value, std::string_view path) {
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const OrderedJson& id : value) {
    const bool fits =
        id.is_number_integer() && id >= 0 && id <= std::numeric_limits<int32_t>::max();
    if (!fits) {
      return refuse_field(ErrorKind::kInvalidArgument, path,
                          fmt::format("must have token ids only, but [{}] is {}", ids.size(),
                                      id.is_number() ? id.dump() : std::string(id.type_name())));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Result<std::vector<RawPrompt>> read_prompts(const JsonFields& fields, std::string_view name) {
  const OrderedJson* value = fields.find(name);
  if (value == nullptr) return refuse_field(ErrorKind::kInvalidArgument, name, "is missing");
  const bool is_list = value->is_array() && !value->empty() &&
                       (value->front().is_string() || value->front().is_array());
  std::vector<RawPrompt> prompts;
  if (!is_list) {
    PENSTOCK_ASSIGN(prompts.emplace_back(), read_prompt(*value, name));
    return prompts;
  }
  for (size_t i = 0; i < value->size(); ++i) {
    PENSTOCK_ASSIGN(prompts.emplace_back(),
                    read_prompt((*value)[i], fmt::format("{}[{}]", name, i)));
  }
  return prompts;
}

Result<CompletionRequest> parse_completion_request(std::string_view body) {
  PENSTOCK_ASSIGN(const OrderedJson parsed, parse_request_body(body));
  const JsonFields fields(parsed);
  CompletionRequest request;
  PENSTOCK_ASSIGN(request.prompts, read_prompts(fields, "prompt"));
  PENSTOCK_ASSIGN(static_cast<GenerationFields&>(request), read_generation_fields(fields));
  if (request.generation.max_tokens == std::numeric_limits<int64_t>::max() &&
      fields.find("max_tokens") == nullptr) {
    request.generation.max_tokens = kDefaultMaxTokens;
  }
  const size_t n_choices = request.prompts.size() * static_cast<size_t>(request.n);
  if (n_choices > static_cast<size_t>(kMaxChoices)) {
    return refuse_field(
        ErrorKind::kInvalidArgument, "prompt",
        fmt::format("times n asks for {} choices, but may for at most {}", n_choices, kMaxChoices));
  }
  PENSTOCK_ASSIGN(const auto echo, fields.flag("echo"));
  request.echo = echo.value_or(false);
  PENSTOCK_ASSIGN(const auto add_special, fields.flag("add_special_tokens"));
  request.add_special_tokens = add_special.value_or(true);
  PENSTOCK_TRY(refuse_unsupported(fields));
  PENSTOCK_TRY(read_logprobs(fields, request));
  return request;
}

}  // namespace penstock
