#include "server/generation_fields.h"

#include <charconv>
#include <limits>
#include <map>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

namespace penstock {
namespace {

// No tool's schema comes near. Without a bound a body could cost the square of its size.
constexpr size_t kMaxKeys = 1024;
constexpr size_t kMaxStops = 16;

bool is_token_id(int64_t id) { return id >= 0 && id <= std::numeric_limits<int32_t>::max(); }

Result<std::vector<int32_t>> read_token_ids(const JsonFields& fields, std::string_view name) {
  PENSTOCK_ASSIGN(const auto numbers, fields.integers(name));
  std::vector<int32_t> ids;
  for (const int64_t id : numbers) {
    if (!is_token_id(id)) {
      return refuse_field(ErrorKind::kInvalidArgument, fields.path(name),
                          fmt::format("has {}, which is no token id", id));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// An object of token ids, written as text, and what is added to their logits.
Result<std::map<int32_t, double>> read_logit_bias(const JsonFields& fields) {
  std::map<int32_t, double> biases;
  PENSTOCK_ASSIGN(const OrderedJson* object, fields.object("logit_bias"));
  if (object == nullptr) return biases;
  for (const auto& [key, bias] : object->items()) {
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || !is_token_id(id)) {
      return refuse_field(ErrorKind::kInvalidArgument, "logit_bias",
                          fmt::format("has the key \"{}\", which is no token id", key));
    }
    if (!bias.is_number()) return wrong_type("logit_bias." + key, "a number", bias);
    biases[static_cast<int32_t>(id)] = bias.get<double>();
  }
  return biases;
}

Result<void> read_sampling(const JsonFields& fields, GenerationFields& request) {
  SamplingOptions& sampling = request.generation.sampling;
  const std::pair<std::string_view, double*> numbers[] = {
      {"temperature", &sampling.temperature},
      {"top_p", &sampling.top_p},
      {"min_p", &sampling.min_p},
      {"typical_p", &sampling.typical_p},
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
  PENSTOCK_ASSIGN(const auto min_tokens, fields.integer("min_tokens"));
  sampling.min_tokens = min_tokens.value_or(0);
  PENSTOCK_ASSIGN(const auto window, fields.integer("penalty_window"));
  sampling.penalty_window = window.value_or(0);
  PENSTOCK_ASSIGN(sampling.logit_bias, read_logit_bias(fields));
  PENSTOCK_ASSIGN(sampling.banned_ids, read_token_ids(fields, "banned_token_ids"));
  PENSTOCK_ASSIGN(sampling.forced_ids, read_token_ids(fields, "forced_token_ids"));
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
  PENSTOCK_ASSIGN(generation.stop_ids, read_token_ids(fields, "stop_token_ids"));
  PENSTOCK_ASSIGN(const auto ignore_eos, fields.flag("ignore_eos"));
  generation.ignore_eos = ignore_eos.value_or(false);
  return {};
}

Result<void> read_choices(const JsonFields& fields, GenerationFields& request) {
  PENSTOCK_ASSIGN(const auto n, fields.integer("n"));
  request.n = n.value_or(1);
  if (request.n >= 1 && request.n <= kMaxChoices) return {};
  return refuse_field(ErrorKind::kInvalidArgument, "n",
                      fmt::format("must be from 1 to {}, but is {}", kMaxChoices, request.n));
}

Result<void> read_streaming(const JsonFields& fields, GenerationFields& request) {
  PENSTOCK_ASSIGN(const auto stream, fields.flag("stream"));
  request.stream = stream.value_or(false);
  PENSTOCK_ASSIGN(const OrderedJson* options, fields.object("stream_options"));
  if (options == nullptr) return {};
  PENSTOCK_ASSIGN(const auto include_usage,
                  JsonFields(*options, "stream_options.").flag("include_usage"));
  request.include_usage = include_usage.value_or(false);
  return {};
}

}  // namespace

Result<OrderedJson> parse_request_body(std::string_view body) {
  auto parsed = parse_ordered_json(body, {.max_keys = kMaxKeys});
  if (!parsed) return std::unexpected(parsed.error().in("the request body"));
  if (!parsed->is_object()) {
    return fail(ErrorKind::kInvalidArgument, "the request body must be an object, but is {}",
                parsed->type_name());
  }
  return parsed;
}

Result<GenerationFields> read_generation_fields(const JsonFields& fields) {
  GenerationFields request;
  PENSTOCK_ASSIGN(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  PENSTOCK_TRY(read_sampling(fields, request));
  PENSTOCK_TRY(read_length(fields, request.generation));
  PENSTOCK_TRY(read_stops(fields, request.generation));
  PENSTOCK_TRY(read_choices(fields, request));
  PENSTOCK_TRY(read_streaming(fields, request));
  return request;
}

std::unexpected<Error> not_yet(std::string_view field, std::string_view what) {
  return refuse_field(ErrorKind::kUnsupported, field,
                      fmt::format("{}{}is not supported yet", what, what.empty() ? "" : " "));
}

uint64_t choice_seed(uint64_t seed, size_t index) {
  // An odd multiplier: distinct for all indices, and far from the seeds that people choose.
  return seed ^ (0x9E3779B97F4A7C15ULL * index);
}

uint64_t random_seed() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32) | random();
}

}  // namespace penstock
