#include "engine/sampling/sampling_options.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/sampling/logprobs.h"

namespace penstock {
namespace {

struct RealRange {
  std::string_view name;
  double value;
  double least;
  double most;
};

struct CountRange {
  std::string_view name;
  int64_t value;
  int64_t most;
};

std::unexpected<Error> refuse(std::string_view param, std::string message) {
  Error error{ErrorKind::kInvalidArgument, std::move(message)};
  error.param = param;
  return std::unexpected(std::move(error));
}

Result<void> check_real(const RealRange& range) {
  if (range.value >= range.least && range.value <= range.most) return {};  // false for NaN
  return refuse(range.name, fmt::format("{} is {}, but must be from {} to {}", range.name,
                                        range.value, range.least, range.most));
}

Result<void> check_count(const CountRange& range) {
  if (range.value >= 0 && range.value <= range.most) return {};
  if (range.most < std::numeric_limits<int64_t>::max()) {
    return refuse(range.name, fmt::format("{} is {}, but must be from 0 to {}", range.name,
                                          range.value, range.most));
  }
  return refuse(range.name,
                fmt::format("{} is {}, but must be 0 or more", range.name, range.value));
}

Result<void> check_id(std::string_view name, int32_t id, int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return {};
  return refuse(name, fmt::format("{} names token id {}, but the vocabulary is [0, {})", name, id,
                                  vocab_size));
}

Result<void> check_ids(const SamplingOptions& options, int64_t vocab_size) {
  for (const auto& [id, bias] : options.logit_bias) {
    PENSTOCK_TRY(check_id("logit_bias", id, vocab_size));
    if (bias >= -100.0 && bias <= 100.0) continue;  // false for NaN
    return refuse(
        "logit_bias",
        fmt::format("logit_bias of token id {} is {}, but must be from -100 to 100", id, bias));
  }
  for (const int32_t id : options.banned_ids) {
    PENSTOCK_TRY(check_id("banned_token_ids", id, vocab_size));
  }
  for (const int32_t id : options.forced_ids) {
    PENSTOCK_TRY(check_id("forced_token_ids", id, vocab_size));
    if (std::ranges::find(options.banned_ids, id) == options.banned_ids.end()) continue;
    return refuse(
        "forced_token_ids",
        fmt::format("forced_token_ids names token id {}, which banned_token_ids bans", id));
  }
  return {};
}

}  // namespace

Result<void> validate(const SamplingOptions& options, int64_t vocab_size) {
  for (const RealRange& range : {
           RealRange{"temperature", options.temperature, 0.0, 2.0},
           RealRange{"top_p", options.top_p, 0.0, 1.0},
           RealRange{"min_p", options.min_p, 0.0, 1.0},
           RealRange{"typical_p", options.typical_p, 0.0, 1.0},
           RealRange{"presence_penalty", options.presence_penalty, -2.0, 2.0},
           RealRange{"frequency_penalty", options.frequency_penalty, -2.0, 2.0},
           RealRange{"repetition_penalty", options.repetition_penalty, 0.01, 10.0},
       }) {
    PENSTOCK_TRY(check_real(range));
  }
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  for (const CountRange& range : {
           CountRange{"top_k", options.top_k, kAny},
           CountRange{"penalty_window", options.penalty_window, kAny},
           CountRange{"min_tokens", options.min_tokens, kAny},
           CountRange{"top_logprobs", options.n_top_logprobs.value_or(0), kMostTopLogprobs},
       }) {
    PENSTOCK_TRY(check_count(range));
  }
  return check_ids(options, vocab_size);
}

}  // namespace penstock
