#include "engine/sampling/sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/philox.h"
#include "engine/sampling/cuts.h"
#include "engine/sampling/logit_row.h"
#include "engine/sampling/softmax.h"

namespace penstock {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

// A level that cannot be had costs no more than time here: loading the model refuses it.
Isa process_isa() {
  static const Isa isa = choose_isa().value_or(Isa::kScalar);
  return isa;
}

}  // namespace

Sampler::Sampler(SamplingOptions options, std::shared_ptr<TokenMask> mask, std::optional<Isa> isa)
    : options_(std::move(options)),
      mask_(std::move(mask)),
      isa_(isa ? *isa : process_isa()),
      penalties_(options_) {}

Result<SampledToken> Sampler::sample(std::span<float> logits, TokenHistory history,
                                     std::span<const int32_t> end_ids) {
  std::span<const float> model_logits = logits;
  if (options_.n_top_logprobs && edits(history)) {
    model_logits_.assign(logits.begin(), logits.end());
    model_logits = model_logits_;
  }
  PENSTOCK_ASSIGN(const int32_t id, choose(logits, history, end_ids));
  if (mask_) PENSTOCK_TRY(mask_->accept(id));
  if (!options_.n_top_logprobs) return SampledToken{.id = id};
  return with_logprobs(isa_, model_logits, id, *options_.n_top_logprobs);
}

bool Sampler::bans(TokenHistory history) const {
  return mask_ || !options_.banned_ids.empty() ||
         static_cast<int64_t>(history.n_answer()) < options_.min_tokens;
}

bool Sampler::edits(TokenHistory history) const {
  return penalties_.any() || !options_.logit_bias.empty() || bans(history);
}

Result<int32_t> Sampler::choose(std::span<float> logits, TokenHistory history,
                                std::span<const int32_t> end_ids) {
  std::span<const uint64_t> allowed;
  if (mask_) {
    PENSTOCK_ASSIGN(allowed, mask_->allowed());
  }
  if (history.n_answer() < options_.forced_ids.size()) {
    const int32_t id = options_.forced_ids[history.n_answer()];
    if (!mask_ || contains(allowed, id)) return id;
    return fail(ErrorKind::kInvalidArgument,
                "the answer is forced to go on with token id {}, which its mask does not allow",
                id);
  }
  edit(logits, history, end_ids);
  if (mask_) ban_others(allowed, logits);
  const Result<int32_t> id = choose_edited(logits, history);
  const auto is_banned = [](float z) { return z == kBanned; };
  if (!id && bans(history) && std::ranges::all_of(logits, is_banned)) {
    return fail(ErrorKind::kInvalidArgument,
                "no token may come next: all that the model allows are banned by "
                "banned_token_ids, min_tokens or a mask");
  }
  return id;
}

void Sampler::edit(std::span<float> logits, TokenHistory history,
                   std::span<const int32_t> end_ids) {
  if (penalties_.any()) penalties_.apply(history, logits);
  for (const auto& [id, bias] : options_.logit_bias) {
    float& z = logits[static_cast<size_t>(id)];
    z = static_cast<float>(double{z} + bias);
  }
  ban(logits, options_.banned_ids);
  if (static_cast<int64_t>(history.n_answer()) < options_.min_tokens) ban(logits, end_ids);
}

// Ids beyond the vocabulary can be among the model's own eos ids.
void Sampler::ban(std::span<float> logits, std::span<const int32_t> ids) const {
  for (const int32_t id : ids) {
    if (static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = kBanned;
  }
}

Result<int32_t> Sampler::choose_edited(std::span<const float> logits, TokenHistory history) const {
  PENSTOCK_ASSIGN(const LogitRow row, LogitRow::read(isa_, logits));
  if (options_.temperature < kGreedyTemperature || options_.top_k == 1) return row.best();
  const double position = uniform(options_.seed, history.n_answer());
  const Softmax softmax(isa_, row, options_.temperature);
  if (!cuts(options_, logits.size())) return softmax.draw(softmax.add_up(), position);
  return draw(cut(options_, row, softmax), position);
}

}  // namespace penstock
