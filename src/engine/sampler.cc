#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "engine/philox.h"

namespace penstock {
namespace {

struct OptionRange {
  std::string_view name;
  double value;
  double least;
  double most;
};

// Lowest id among the largest values; -1 when nothing is finite. An error for NaN or +inf.
Result<int32_t> find_largest(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float largest = -kInfinity;
  int32_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < kInfinity)) {
      return fail(ErrorKind::kInternal, "the model's logit of token id {} is {}", i, logits[i]);
    }
    if (logits[i] > largest) {
      largest = logits[i];
      best = static_cast<int32_t>(i);
    }
  }
  if (best < 0) {
    return fail(ErrorKind::kInternal, "the model's logits of all {} token ids are -inf",
                logits.size());
  }
  return best;
}

}  // namespace

Result<void> validate(const SamplingOptions& options) {
  const OptionRange ranges[] = {
      {"temperature", options.temperature, 0.0, 2.0},
      {"top_p", options.top_p, 0.0, 1.0},
      {"min_p", options.min_p, 0.0, 1.0},
      {"presence_penalty", options.presence_penalty, -2.0, 2.0},
      {"frequency_penalty", options.frequency_penalty, -2.0, 2.0},
      {"repetition_penalty", options.repetition_penalty, 0.01, 10.0},
      {"top_logprobs", static_cast<double>(options.n_top_logprobs.value_or(0)), 0.0,
       kMostTopLogprobs},
      {"top_k", static_cast<double>(options.top_k), 0.0, std::numeric_limits<double>::max()},
  };
  for (const OptionRange& range : ranges) {
    if (range.value >= range.least && range.value <= range.most) continue;  // false for NaN
    Error error{ErrorKind::kInvalidArgument,
                range.name == "top_k"
                    ? fmt::format("top_k is {}, but must be 0 (off) or more", options.top_k)
                    : fmt::format("{} is {}, but must be from {} to {}", range.name, range.value,
                                  range.least, range.most)};
    error.param = range.name;
    return std::unexpected(std::move(error));
  }
  return {};
}

Result<SampledToken> Sampler::sample(std::span<float> logits, TokenHistory history) {
  const bool wants_logprobs = options_.n_top_logprobs.has_value();
  std::span<const float> model_logits = logits;
  if (wants_logprobs && has_penalties()) {
    model_logits_.assign(logits.begin(), logits.end());
    model_logits = model_logits_;
  }
  PENSTOCK_ASSIGN(const int32_t id, choose(logits, history));
  if (!wants_logprobs) return SampledToken{.id = id};
  return with_logprobs(model_logits, id, *options_.n_top_logprobs);
}

Result<int32_t> Sampler::choose(std::span<float> logits, TokenHistory history) {
  if (has_penalties()) {
    count(history);
    apply_penalties(logits);
  }
  PENSTOCK_ASSIGN(const int32_t best, find_largest(logits));
  if (options_.temperature < kGreedyTemperature || options_.top_k == 1) return best;
  weigh(logits, logits[static_cast<size_t>(best)]);
  cut();
  return draw(uniform(options_.seed, history.tokens.size() - history.n_prompt));
}

bool Sampler::has_penalties() const {
  return options_.repetition_penalty != 1.0 || options_.presence_penalty != 0.0 ||
         options_.frequency_penalty != 0.0;
}

void Sampler::count(TokenHistory history) {
  for (; n_counted_ < history.tokens.size(); ++n_counted_) {
    int64_t& times = answer_counts_[history.tokens[n_counted_]];
    if (n_counted_ >= history.n_prompt) ++times;
  }
}

void Sampler::apply_penalties(std::span<float> logits) const {
  for (const auto& [id, times] : answer_counts_) {
    if (static_cast<size_t>(id) >= logits.size()) continue;
    double z = logits[static_cast<size_t>(id)];
    z = z > 0.0 ? z / options_.repetition_penalty : z * options_.repetition_penalty;
    if (times > 0) {
      z -= options_.presence_penalty + options_.frequency_penalty * static_cast<double>(times);
    }
    logits[static_cast<size_t>(id)] = static_cast<float>(z);
  }
}

void Sampler::weigh(std::span<const float> logits, float largest) {
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const double lead = static_cast<double>(logits[i]) - static_cast<double>(largest);
    const double weight = std::exp(lead / options_.temperature);
    if (weight > 0.0) candidates_.push_back({weight, static_cast<int32_t>(i)});
  }
}

void Sampler::cut() {
  const auto top_k = static_cast<size_t>(options_.top_k);
  if (top_k > 0 && top_k < candidates_.size()) {
    order_best(top_k);
    candidates_.resize(top_k);
  }
  if (options_.top_p < 1.0) candidates_.resize(count_top_p());
  if (options_.min_p > 0.0) {  // the best candidate weighs exp(0)
    std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < options_.min_p; });
  }
}

// Orders only as many candidates as are needed, which are few of the vocabulary as a rule.
size_t Sampler::count_top_p() {
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  const double wanted = options_.top_p * total;
  double held = 0.0;
  size_t n_ordered = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (i == n_ordered) {
      n_ordered = std::min(candidates_.size(), std::max<size_t>(64, 8 * n_ordered));
      order_best(n_ordered);
    }
    held += candidates_[i].weight;
    if (held >= wanted) return i + 1;
  }
  return candidates_.size();
}

void Sampler::order_best(size_t n) {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  };
  const auto middle = candidates_.begin() + static_cast<ptrdiff_t>(n);
  std::ranges::partial_sort(candidates_, middle, better);
}

int32_t Sampler::draw(double position) const {
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  double left = position * total;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.weight;
    if (left < 0.0) return candidate.id;
  }
  return candidates_.back().id;  // the roundings of the two sums may differ
}

}  // namespace penstock
