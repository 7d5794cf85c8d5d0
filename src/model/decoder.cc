#include "model/decoder.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/machine_limits/machine_limits.h"
#include "kernels/rms_norm/rms_norm.h"
#include "model/batch.h"
#include "model/decoder_spec.h"
#include "tensor/codec.h"

namespace penstock {
Decoder::Decoder(ModelSpec spec, ModelMemory memory, std::unique_ptr<Pool> pool, Isa isa,
                 Precision precision)
    : spec_(std::move(spec)),
      memory_(std::move(memory)),
      pool_(std::move(pool)),
      compute_{pool_.get(), isa, precision, &activations_} {}

Result<std::unique_ptr<Decoder>> Decoder::make(const ModelSpec& spec, ModelMemory memory,
                                               std::unique_ptr<Pool> pool, Isa isa,
                                               Precision precision) {
  std::unique_ptr<Decoder> decoder(
      new Decoder(spec, std::move(memory), std::move(pool), isa, precision));
  PENSTOCK_TRY(decoder->load_layers());
  return decoder;
}

Result<void> Decoder::load_layers() {
  const WeightStore& weights = memory_.weights;
  PENSTOCK_ASSIGN(embedding_, weights.matrix("embed"));
  PENSTOCK_ASSIGN(head_, spec_.tied_head ? Result<MatrixView>(embedding_) : weights.matrix("head"));
  PENSTOCK_ASSIGN(final_norm_, weights.vector("final_norm", spec_.hidden_dim));
  PENSTOCK_ASSIGN(const DecoderParts parts, compose(spec_));
  for (size_t i = 0; i < parts.size(); ++i) {
    PENSTOCK_ASSIGN(Layer layer, load_layer(parts[i], static_cast<int>(i)));
    layers_.push_back(std::move(layer));
  }
  return {};
}

Result<Decoder::Layer> Decoder::load_layer(const LayerParts& parts, int index) const {
  const WeightStore& weights = memory_.weights;
  const std::string prefix = fmt::format("layers.{}.", index);
  Layer layer;
  PENSTOCK_ASSIGN(layer.attention_norm, weights.vector(prefix + "attn_norm", spec_.hidden_dim));
  PENSTOCK_ASSIGN(layer.ffn_norm, weights.vector(prefix + "ffn_norm", spec_.hidden_dim));
  PENSTOCK_ASSIGN(layer.attention, AttentionBlock::load(spec_, parts.attention, weights, prefix));
  if (const auto* moe = std::get_if<MoePart>(&parts.ffn)) {
    PENSTOCK_ASSIGN(layer.ffn, MoeBlock::load(spec_, *moe, weights, prefix,
                                              {.banks = memory_.banks.get(),
                                               .cache = memory_.cache.get(),
                                               .index = index}));
  } else {
    PENSTOCK_ASSIGN(layer.ffn,
                    DenseFfnBlock::load(std::get<DensePart>(parts.ffn), weights, prefix));
  }
  return layer;
}

Result<void> Decoder::step(std::span<const SequenceSlice> batch, std::span<float> logits) {
  PENSTOCK_TRY(check_batch(spec_, batch, logits.size()));
  const StepTimer timer(compute_.profile);
  const StepTokens step(compute_, spec_, batch);
  if (step.n_tokens() == 0) return {};
  if (compute_.routing != nullptr) {
    compute_.routing->begin_step(step.n_tokens() - step.n_generated(), step.n_generated());
  }
  const auto x = scratch_rows(x_, step.n_tokens(), spec_.hidden_dim);
  embed(step, x);
  PENSTOCK_TRY(run_layers(step, x));
  write_logits(step, x, logits);
  return {};
}

std::optional<WeightsRead> Decoder::read_weights() {
  std::vector<std::span<const std::byte>> runs = memory_.weights.runs();
  if (memory_.banks != nullptr) {
    const auto of_banks = memory_.banks->runs();
    runs.insert(runs.end(), of_banks.begin(), of_banks.end());
  }
  uint64_t bytes = 0;
  for (const auto& run : runs) bytes += run.size();
  return WeightsRead{.bytes = bytes, .seconds = read_seconds(*pool_, compute_.isa, runs)};
}

std::optional<ExpertCounts> Decoder::expert_counts() const {
  return memory_.cache ? std::optional(memory_.cache->counts()) : std::nullopt;
}

void Decoder::set_profile(Profile* profile) {
  compute_.profile = profile;
  pool_->count_waiting(profile != nullptr ? &profile->waited : nullptr);
}

void Decoder::embed(const StepTokens& step, Rows<float> x) const {
  const OperationTimer timer(compute_.profile, Operation::kEmbedding);
  for_each_row(compute_, x.n_rows, x.cols * kConversion, [&](Range range) {
    for (int64_t t = range.begin; t < range.end; ++t) {
      const SequenceSlice& slice = step.slice_of(t);
      const auto i = static_cast<size_t>(step.position(t) - slice.position);
      const auto n = static_cast<size_t>(x.cols);
      if (slice.layers && slice.layers->begin > 0) {
        std::ranges::copy(slice.layers->stream.subspan(i * n, n), x.row(t));
      } else {
        decode_row(embedding_, slice.tokens[i], {x.row(t), n});
      }
    }
  });
}

// The rows of slices with a range of layers are the last ones: where the range ends, the rest goes
// on without them.
Result<void> Decoder::run_layers(const StepTokens& step, Rows<float> x) {
  const auto slices = step.slices();
  const size_t n_whole = n_whole_slices(slices);
  if (n_whole == slices.size()) {
    for (int i = 0; i < spec_.n_layers(); ++i) PENSTOCK_TRY(run_layer(step, i, x));
    return {};
  }
  const StepTokens whole(compute_, spec_, slices.first(n_whole));
  const Rows<float> x_whole = {x.data, whole.n_tokens(), x.cols, x.stride};
  const LayerRange& range = *slices[n_whole].layers;
  for (int i = 0; i < spec_.n_layers(); ++i) {
    if (range.begin <= i && i < range.end) {
      PENSTOCK_TRY(run_layer(step, i, x));
    } else if (whole.n_tokens() > 0) {
      PENSTOCK_TRY(run_layer(whole, i, x_whole));
    }
  }
  if (range.end == spec_.n_layers()) return {};
  for (size_t s = n_whole; s < slices.size(); ++s) {
    const std::span<float> stream = slices[s].layers->stream;
    std::copy_n(x.row(step.first_row(s)), stream.size(), stream.begin());
  }
  return {};
}

Result<void> Decoder::run_layer(const StepTokens& step, int index, Rows<float> x) {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  const auto h = scratch_rows(h_, x.n_rows, x.cols);
  const auto y = scratch_rows(y_, x.n_rows, x.cols);
  normalise(x, layer.attention_norm, h);
  layer.attention.forward(compute_, step, memory_.kv, index, attention_, h, y);
  add_residual(y, x);
  const MoeBlock::Ahead ahead = guess_ahead(index, x);
  normalise(x, layer.ffn_norm, h);
  const auto forward = [&]<class Block>(const Block& ffn) -> Result<void> {
    auto& buffers = std::get<typename Block::Buffers>(ffn_);
    if constexpr (std::same_as<Block, MoeBlock>) {
      return ffn.forward(compute_, step, buffers, h, y, ahead);
    } else {
      ffn.forward(compute_, step, buffers, h, y);
      return {};
    }
  };
  PENSTOCK_TRY(std::visit(forward, layer.ffn));
  add_residual(y, x);
  return {};
}

MoeBlock::Ahead Decoder::guess_ahead(int index, Rows<const float> x) {
  // More tokens want most of a layer's experts, which then are better read in its own waves.
  constexpr int64_t kMostTokens = 8;
  if (memory_.cache == nullptr || index + 1 == spec_.n_layers() || x.n_rows > kMostTokens)
    return {};
  const Layer& next = layers_[static_cast<size_t>(index) + 1];
  const auto* const moe = std::get_if<MoeBlock>(&next.ffn);
  if (moe == nullptr || !moe->is_on_disk()) return {};
  const auto h = scratch_rows(h_, x.n_rows, x.cols);
  normalise(x, next.ffn_norm, h);
  moe->guess_experts(compute_, std::get<MoeBlock::Buffers>(ffn_), h, guesses_);
  return {.cache = memory_.cache.get(), .layer = index + 1, .guesses = guesses_};
}

void Decoder::write_logits(const StepTokens& step, Rows<const float> x, std::span<float> logits) {
  // The wanted rows move together.
  const auto h_all = scratch_rows(h_, x.n_rows, x.cols);
  int64_t n_rows = 0;
  for (size_t s = 0; s < step.slices().size(); ++s) {
    const SequenceSlice& slice = step.slices()[s];
    const int64_t wanted = logit_rows(slice);
    const int64_t end = step.first_row(s) + static_cast<int64_t>(slice.tokens.size());
    for (int64_t row = end - wanted; row < end; ++row) {
      std::memcpy(h_all.row(n_rows++), x.row(row), static_cast<size_t>(x.cols) * sizeof(float));
    }
  }
  if (n_rows == 0) return;
  const auto h = dense_rows(h_all.data, n_rows, x.cols);
  normalise(h, final_norm_, h);
  // Prompts ask for few rows here, seldom worth the panels of prefill; so it is one kind for all.
  const MatmulJob job = {&head_, h, dense_rows(logits.data(), n_rows, spec_.vocab_size), n_rows};
  const OperationTimer timer(compute_.profile, Operation::kLogits,
                             [&] { return work_of({&job, 1}); });
  run_matmuls(compute_, std::span(&job, 1));
}

void Decoder::add_residual(Rows<const float> y, Rows<float> x) const {
  const OperationTimer timer(compute_.profile, Operation::kResidual);
  add_rows(compute_, y, x);
}

void Decoder::normalise(Rows<const float> x, std::span<const float> weight, Rows<float> y) const {
  const OperationTimer timer(compute_.profile, Operation::kNorm);
  for_each_row(compute_, x.n_rows, x.cols * kPlainPass, [&](Range range) {
    const Rows<const float> from = {x.row(range.begin), range.size(), x.cols, x.stride};
    const Rows<float> to = {y.row(range.begin), range.size(), y.cols, y.stride};
    rms_norm_exact(compute_.isa, from, weight, static_cast<float>(spec_.rms_eps), to);
  });
}

}  // namespace penstock
