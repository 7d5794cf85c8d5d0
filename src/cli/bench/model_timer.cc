#include "cli/bench/model_timer.h"

#include <algorithm>
#include <chrono>

#include "kernels/attention/attention.h"

namespace penstock {
namespace {

Result<void> nothing(std::span<const float>) { return {}; }

}  // namespace

int64_t ModelTimer::Runs::kv_tokens() const {
  return std::max(n_prefill, batch * pages_for(n_context + n_decode) * kPageTokens);
}

ModelTimer::ModelTimer(LanguageModel& model, const Runs& runs, std::vector<int32_t> tokens)
    : model_(model), runs_(runs) {
  const int64_t n_pages = pages_for(runs.n_context + runs.n_decode);
  for (int64_t i = 0; i < runs.batch; ++i) {
    const int64_t begin = i * std::ssize(tokens) / runs.batch;
    std::vector<int32_t> own(tokens.begin() + begin, tokens.end());
    own.insert(own.end(), tokens.begin(), tokens.begin() + begin);
    sequences_.push_back({SequenceRunner(model, runs.chunk, i * n_pages), std::move(own)});
  }
}

Result<double> ModelTimer::prefill() {
  Sequence& first = sequences_.front();
  PENSTOCK_TRY(first.runner.begin(runs_.n_prefill));
  has_contexts_ = false;
  return seconds_of([&] {
    return first.runner.extend(std::span(first.tokens).first(static_cast<size_t>(runs_.n_prefill)),
                               TokenOrigin::kPrompt, LogitRows::kLast, nothing);
  });
}

Result<double> ModelTimer::decode() {
  if (has_contexts_) {
    for (Sequence& sequence : sequences_) sequence.runner.rewind(runs_.n_context);
  } else {
    PENSTOCK_TRY(run_contexts());
  }
  return seconds_of([&]() -> Result<void> {
    for (int64_t i = runs_.n_context; i < runs_.n_context + runs_.n_decode; ++i) {
      PENSTOCK_TRY(decode_step(static_cast<size_t>(i)));
    }
    return {};
  });
}

Result<void> ModelTimer::run_contexts() {
  for (Sequence& sequence : sequences_) {
    PENSTOCK_TRY(sequence.runner.begin(runs_.n_context + runs_.n_decode));
    const auto context = std::span(sequence.tokens).first(static_cast<size_t>(runs_.n_context));
    PENSTOCK_TRY(sequence.runner.extend(context, TokenOrigin::kPrompt, LogitRows::kLast, nothing));
  }
  has_contexts_ = true;
  return {};
}

Result<void> ModelTimer::decode_step(size_t position) {
  slices_.clear();
  for (const Sequence& sequence : sequences_) {
    slices_.push_back(sequence.runner.slice_of(std::span(sequence.tokens).subspan(position, 1),
                                               TokenOrigin::kGenerated, LogitRows::kLast));
  }
  logits_.resize(slices_.size() * static_cast<size_t>(model_.spec().vocab_size));
  PENSTOCK_TRY(model_.step(slices_, logits_));
  for (Sequence& sequence : sequences_) sequence.runner.grow(1);
  return {};
}

Result<double> ModelTimer::seconds_of(const std::function<Result<void>()>& work) {
  model_.set_profile(profile_);
  const auto began = std::chrono::steady_clock::now();
  const Result<void> done = work();
  const auto ended = std::chrono::steady_clock::now();
  model_.set_profile(nullptr);
  PENSTOCK_TRY(done);
  return std::chrono::duration<double>(ended - began).count();
}

}  // namespace penstock
