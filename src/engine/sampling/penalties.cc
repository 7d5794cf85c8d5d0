#include "engine/sampling/penalties.h"

#include <algorithm>
#include <limits>

namespace penstock {

Penalties::Penalties(const SamplingOptions& options)
    : repetition_(options.repetition_penalty),
      presence_(options.presence_penalty),
      frequency_(options.frequency_penalty),
      window_(options.penalty_window == 0 ? std::numeric_limits<size_t>::max()
                                          : static_cast<size_t>(options.penalty_window)) {}

void Penalties::apply(TokenHistory history, std::span<float> logits) {
  advance(history);
  for (const auto& [id, times] : times_) {
    if (static_cast<size_t>(id) >= logits.size()) continue;
    double z = logits[static_cast<size_t>(id)];
    z = z > 0.0 ? z / repetition_ : z * repetition_;
    if (times.in_answer > 0) {
      z -= presence_ + frequency_ * static_cast<double>(times.in_answer);
    }
    logits[static_cast<size_t>(id)] = static_cast<float>(z);
  }
}

void Penalties::advance(TokenHistory history) {
  const size_t size = history.tokens.size();
  const size_t begin = size - std::min(size, window_);
  // A window that has moved past all it held begins anew.
  if (begin >= end_) {
    times_.clear();
    begin_ = end_ = begin;
  }
  for (; end_ < size; ++end_) ++times_of(history, end_);
  for (; begin_ < begin; ++begin_) {
    --times_of(history, begin_);
    const auto gone = times_.find(history.tokens[begin_]);
    if (gone->second.in_prompt == 0 && gone->second.in_answer == 0) times_.erase(gone);
  }
}

int64_t& Penalties::times_of(TokenHistory history, size_t place) {
  Times& times = times_[history.tokens[place]];
  return place < history.n_prompt ? times.in_prompt : times.in_answer;
}

}  // namespace penstock
