#include "model/gpu/gpu_decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/integers.h"
#include "kernels/attention/attention.h"
#include "kernels/rms_norm/rms_norm_gpu.h"
#include "kernels/router/router_gpu.h"
#include "kernels/swiglu/swiglu_gpu.h"
#include "model/batch.h"
#include "tensor/codec.h"

namespace penstock {
namespace {

static_assert(kGpuPageTokens == kPageTokens);

// Rows of bf16 begin on 16 bytes.
int64_t bf16_stride(int64_t cols) { return round_up(cols, 8); }

// All experts' rows of one layer, at most.
struct MoeSizes {
  int n_experts = 0, top_k = 0;
  int64_t expert_dim = 0;
};

MoeSizes largest_moe(const DecoderParts& layers) {
  MoeSizes sizes;
  for (const LayerParts& layer : layers) {
    const auto* const moe = std::get_if<MoePart>(&layer.ffn);
    if (moe == nullptr) continue;
    sizes.n_experts = std::max(sizes.n_experts, moe->n_experts);
    sizes.top_k = std::max(sizes.top_k, moe->top_k);
    sizes.expert_dim = std::max(sizes.expert_dim, moe->expert_dim);
  }
  return sizes;
}

int64_t largest_ffn(const DecoderParts& layers) {
  int64_t dim = 0;
  for (const LayerParts& layer : layers) {
    const auto* const moe = std::get_if<MoePart>(&layer.ffn);
    dim = std::max(dim, moe != nullptr ? moe->shared_dim : std::get<DensePart>(layer.ffn).dim);
  }
  return dim;
}

}  // namespace

size_t gpu_page_bytes(const ModelSpec& spec) {
  return KvShape{.n_layers = spec.n_layers(),
                 .n_kv_heads = spec.n_kv_heads,
                 .head_dim = spec.head_dim,
                 .format = KvFormat::kBF16}
      .page_bytes();
}

GpuDecoder::GpuDecoder(ModelSpec spec, Parts parts)
    : spec_(std::move(spec)), parts_(std::move(parts)) {
  compute_.pool = parts_.pool.get();
}

Result<std::unique_ptr<GpuDecoder>> GpuDecoder::make(const ModelSpec& spec, Parts parts) {
  if (spec.head_dim > kMaxGpuHeadDim) {
    return fail(
        ErrorKind::kUnsupported,
        "the GPU's attention takes heads of at most {} numbers, not {}; --gpu none runs the "
        "model on the CPU",
        kMaxGpuHeadDim, spec.head_dim);
  }
  if (spec.moe.n_experts > kGpuMostExperts || spec.moe.top_k > kGpuMostChoices ||
      spec.moe.router.n_groups > 32) {
    return fail(
        ErrorKind::kUnsupported,
        "the GPU's router chooses at most {} of {} experts in 32 groups, not {} of {} in {}; "
        "--gpu none runs the model on the CPU",
        kGpuMostChoices, kGpuMostExperts, spec.moe.top_k, spec.moe.n_experts,
        spec.moe.router.n_groups);
  }
  std::unique_ptr<GpuDecoder> decoder(new GpuDecoder(spec, std::move(parts)));
  PENSTOCK_ASSIGN(decoder->layers_, compose(spec));
  PENSTOCK_ASSIGN(decoder->embedding_, decoder->parts_.host.matrix("embed"));
  return decoder;
}

Result<void> GpuDecoder::reserve_step(int64_t n_tokens) {
  const Inputs inputs = {
      .n_pages = pages_for(n_tokens), .n_logit_rows = 1, .longest = static_cast<int32_t>(n_tokens)};
  return reserve(n_tokens, lay_out(inputs, n_tokens));
}

Result<void> GpuDecoder::allocate_kv(int64_t n_pages) {
  n_pages_ = n_pages;
  return kv_.reserve(*parts_.driver,
                     static_cast<size_t>(n_pages) * gpu_page_bytes(spec_) / sizeof(uint16_t));
}

Result<void> GpuDecoder::allocate_slots(int64_t n_slots) {
  PENSTOCK_ASSIGN(step_done_, Event::create(*parts_.driver));
  PENSTOCK_ASSIGN(cache_, GpuExpertCache::make(parts_.driver, *parts_.pins, spec_, parts_.weights,
                                               n_slots, std::move(parts_.banks)));
  parts_.weights.set_pool(cache_->pool());
  return {};
}

GpuKv GpuDecoder::kv() const {
  const size_t page_numbers = gpu_page_bytes(spec_) / sizeof(uint16_t);
  return {kv_.take(static_cast<size_t>(n_pages_) * page_numbers), page_numbers};
}

void GpuDecoder::copy_page(PageId from, PageId to) {
  // It runs before the next step, which tells of an error: nobody may read a page that was not
  // copied.
  const Result<void> queued =
      gpu_copy_page(queue(), kv(), static_cast<int32_t>(from), static_cast<int32_t>(to));
  if (copied_) copied_ = queued;
}

Result<void> GpuDecoder::step(std::span<const SequenceSlice> batch, std::span<float> logits) {
  PENSTOCK_TRY(check_batch(spec_, batch, logits.size()));
  const StepTimer timer(compute_.profile);
  const StepTokens step(compute_, spec_, batch);
  if (step.n_tokens() == 0) return {};
  PENSTOCK_TRY(std::exchange(copied_, {}));
  const Inputs inputs = measure(step);
  PENSTOCK_TRY(reserve(step.n_tokens(), inputs));
  write_inputs(step, inputs);
  // Whatever fails: nothing still runs when this returns.
  Result<void> ran = queue_step(step, inputs);
  if (ran && calls_for_experts_) ran = await_step(step);
  const Result<void> done = settled(*parts_.driver, parts_.driver->synchronise(parts_.stream.id()));
  PENSTOCK_TRY(ran);
  PENSTOCK_TRY(done);
  hand_over(step, logits);
  return {};
}

// Steps in which every sequence decodes come again and again, with other tokens and pages.
bool GpuDecoder::is_graphed(const StepTokens& step) const {
  constexpr int64_t kMostSequences = 16;
  const auto decodes = [](const SequenceSlice& slice) {
    return slice.tokens.size() == 1 && slice.logits == LogitRows::kLast && !slice.layers;
  };
  return parts_.use_graphs && (!cache_ || cache_->takes_calls(step.n_tokens())) &&
         step.n_tokens() <= kMostSequences && std::ranges::all_of(step.slices(), decodes);
}

bool GpuDecoder::has_calls(const StepTokens& step) const {
  return cache_ && is_graphed(step) && to_device_.is_pinned() && to_host_.is_pinned();
}

Result<void> GpuDecoder::await_step(const StepTokens& step) {
  Driver& driver = *parts_.driver;
  const Result<void> recorded =
      settled(driver, driver.record(step_done_->id(), parts_.stream.id()));
  // Without the event nobody knows when to stop: the kernels give up for themselves.
  PENSTOCK_TRY(recorded);
  return cache_->serve_calls(step_done_->id(), step.n_tokens());
}

Result<void> GpuDecoder::queue_step(const StepTokens& step, const Inputs& inputs) {
  calls_for_experts_ = has_calls(step);
  if (!is_graphed(step) || !to_device_.is_pinned() || !to_host_.is_pinned()) {
    return run(step, inputs);
  }
  if (calls_for_experts_) PENSTOCK_TRY(cache_->begin_calls(queue()));
  if (const int64_t n = n_allocations(); n_graphed_allocations_ != n) {
    graphs_.clear();
    n_graphed_allocations_ = n;
  }
  const GraphKey key = {step.n_tokens(), inputs.longest};
  auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    PENSTOCK_ASSIGN(Graph graph, Graph::record(*parts_.driver, parts_.stream.id(),
                                               [&] { return run(step, inputs); }));
    found = graphs_.emplace(key, std::move(graph)).first;
  }
  return found->second.launch(parts_.stream.id());
}

// Of all memory that graphs use: another number, and some of it is elsewhere.
int64_t GpuDecoder::n_allocations() const {
  const auto of = [](const auto&... buffers) { return (buffers.n_allocations() + ...); };
  return of(to_device_, to_host_, inputs_, h_, act_, heads_out_, h_float_, qkv_, gate_up_,
            expert_out_, router_logits_, router_weights_, logits_, split_parts_, split_stats_,
            chosen_, n_groups_, row_of_, token_of_, groups_, arrived_);
}

GpuDecoder::Inputs GpuDecoder::measure(const StepTokens& step) const {
  Inputs inputs;
  for (const SequenceSlice& slice : step.slices()) {
    const int64_t end = slice.position + std::ssize(slice.tokens);
    inputs.n_pages += pages_for(end);
    inputs.n_logit_rows += logit_rows(slice);
    inputs.longest = std::max(inputs.longest, static_cast<int32_t>(end));
    inputs.are_newest = inputs.are_newest && slice.tokens.size() == 1;
  }
  if (is_graphed(step)) {
    // A graph serves contexts up to the next power of two: its thread blocks behind a sequence's
    // end have nothing to do.
    const auto n_splits = std::bit_ceil(static_cast<uint64_t>(GpuSplits::of(inputs.longest).n));
    inputs.longest = static_cast<int32_t>(n_splits) * kGpuSplitKeys;
    inputs.pages_apart = inputs.longest / kGpuPageTokens;
    inputs.n_pages = inputs.pages_apart * std::ssize(step.slices());
  }
  return lay_out(inputs, step.n_tokens());
}

GpuDecoder::Inputs GpuDecoder::lay_out(Inputs inputs, int64_t n_tokens) const {
  const auto take = [&](size_t bytes) {
    return std::exchange(inputs.bytes, inputs.bytes + round_up(bytes, size_t{256}));
  };
  const auto n = static_cast<size_t>(n_tokens);
  inputs.stream = take(n * static_cast<size_t>(spec_.hidden_dim) * sizeof(float));
  inputs.angles = take(n * static_cast<size_t>(spec_.rope.rotary_dims) * sizeof(float));
  inputs.tokens = take(n * sizeof(GpuToken));
  inputs.pages = take(static_cast<size_t>(inputs.n_pages) * sizeof(int32_t));
  inputs.logit_rows = take(static_cast<size_t>(inputs.n_logit_rows) * sizeof(int32_t));
  return inputs;
}

// Tokens whose splits are kept at a time: a prompt's are many.
int64_t GpuDecoder::attended_at_once(GpuSplits splits, int64_t n_tokens) const {
  constexpr size_t kMostNumbers = size_t{16} << 20;
  const size_t each = splits.part_numbers(attention_shape(0), 1);
  return std::clamp<int64_t>(static_cast<int64_t>(kMostNumbers / each), 1, n_tokens);
}

Result<void> GpuDecoder::reserve(int64_t n_tokens, const Inputs& inputs) {
  Driver& driver = *parts_.driver;
  const auto n = static_cast<size_t>(n_tokens);
  const auto numbers = [n](int64_t each) { return n * static_cast<size_t>(each); };
  const MoeSizes moe = largest_moe(layers_);
  const int64_t ffn_dim = largest_ffn(layers_);
  const GpuAttentionShape shape = attention_shape(0);
  const GpuSplits splits = GpuSplits::of(inputs.longest);
  const size_t logit_numbers =
      static_cast<size_t>(inputs.n_logit_rows) * static_cast<size_t>(spec_.vocab_size);
  stream_at_ = round_up(logit_numbers * sizeof(float), size_t{4096});
  PENSTOCK_TRY(to_device_.reserve(*parts_.pins, inputs.bytes));
  PENSTOCK_TRY(
      to_host_.reserve(*parts_.pins, stream_at_ + numbers(spec_.hidden_dim) * sizeof(float)));
  PENSTOCK_TRY(inputs_.reserve(driver, inputs.bytes));
  PENSTOCK_TRY(h_.reserve(driver, numbers(bf16_stride(spec_.hidden_dim))));
  PENSTOCK_TRY(h_float_.reserve(driver, numbers(spec_.hidden_dim)));
  PENSTOCK_TRY(qkv_.reserve(driver, numbers(shape.q_stride)));
  PENSTOCK_TRY(heads_out_.reserve(driver, numbers(bf16_stride(spec_.n_heads * spec_.head_dim))));
  const int64_t n_attended = attended_at_once(splits, n_tokens);
  PENSTOCK_TRY(split_parts_.reserve(driver, splits.part_numbers(shape, n_attended)));
  PENSTOCK_TRY(split_stats_.reserve(driver, splits.stat_numbers(shape, n_attended)));
  PENSTOCK_TRY(gate_up_.reserve(driver, numbers(2 * ffn_dim)));
  PENSTOCK_TRY(act_.reserve(
      driver, numbers(std::max(bf16_stride(ffn_dim), moe.top_k * bf16_stride(moe.expert_dim)))));
  PENSTOCK_TRY(logits_.reserve(driver, logit_numbers));
  PENSTOCK_TRY(arrived_.reserve_zeros(queue(), numbers(shape.n_kv_heads)));
  if (moe.n_experts == 0) return {};
  PENSTOCK_TRY(expert_out_.reserve(driver, numbers(moe.top_k * spec_.hidden_dim)));
  PENSTOCK_TRY(router_logits_.reserve(driver, numbers(moe.n_experts)));
  PENSTOCK_TRY(router_weights_.reserve(driver, numbers(moe.top_k)));
  PENSTOCK_TRY(chosen_.reserve(driver, numbers(moe.top_k)));
  PENSTOCK_TRY(row_of_.reserve(driver, numbers(moe.top_k)));
  PENSTOCK_TRY(token_of_.reserve(driver, numbers(moe.top_k)));
  PENSTOCK_TRY(n_groups_.reserve(driver, static_cast<size_t>(moe.n_experts)));
  return groups_.reserve(driver, static_cast<size_t>(moe.n_experts));
}

void GpuDecoder::write_inputs(const StepTokens& step, const Inputs& inputs) {
  std::byte* const memory = to_device_.bytes().data();
  const auto n = static_cast<size_t>(step.n_tokens());
  write_stream(step, {reinterpret_cast<float*>(memory + inputs.stream),
                      n * static_cast<size_t>(spec_.hidden_dim)});
  auto* angles = reinterpret_cast<float*>(memory + inputs.angles);
  auto* const tokens = reinterpret_cast<GpuToken*>(memory + inputs.tokens);
  auto* const pages = reinterpret_cast<int32_t*>(memory + inputs.pages);
  auto* rows = reinterpret_cast<int32_t*>(memory + inputs.logit_rows);
  for (int64_t t = 0; t < step.n_tokens(); ++t) {
    angles = std::ranges::copy(step.cos(t), angles).out;
    angles = std::ranges::copy(step.sin(t), angles).out;
  }
  int32_t first_page = 0;
  for (size_t s = 0; s < step.slices().size(); ++s) {
    const SequenceSlice& slice = step.slices()[s];
    const int64_t n_tokens = std::ssize(slice.tokens);
    const int64_t n_pages = pages_for(slice.position + n_tokens);
    const int64_t first_row = step.first_row(s);
    for (int64_t i = 0; i < n_tokens; ++i) {
      tokens[first_row + i] = {.position = static_cast<int32_t>(slice.position + i),
                               .first_page = first_page};
    }
    int32_t* of_slice = pages + first_page;
    for (const PageId page : slice.pages.first(static_cast<size_t>(n_pages))) {
      *of_slice++ = static_cast<int32_t>(page);
    }
    for (int64_t i = n_tokens - logit_rows(slice); i < n_tokens; ++i) {
      *rows++ = static_cast<int32_t>(first_row + i);
    }
    first_page += static_cast<int32_t>(std::max(n_pages, inputs.pages_apart));
  }
}

// What the layers begin with: embeddings, or what earlier layers left.
void GpuDecoder::write_stream(const StepTokens& step, std::span<float> stream) {
  const auto n = static_cast<size_t>(spec_.hidden_dim);
  for_each_row(compute_, step.n_tokens(), spec_.hidden_dim * kConversion, [&](Range range) {
    for (int64_t t = range.begin; t < range.end; ++t) {
      const SequenceSlice& slice = step.slice_of(t);
      const auto i = static_cast<size_t>(step.position(t) - slice.position);
      const auto to = stream.subspan(static_cast<size_t>(t) * n, n);
      if (slice.layers && slice.layers->begin > 0) {
        std::ranges::copy(slice.layers->stream.subspan(i * n, n), to.begin());
      } else {
        decode_row(embedding_, slice.tokens[i], to);
      }
    }
  });
}

GpuStepTokens GpuDecoder::step_tokens(const Inputs& inputs, int64_t n_tokens) const {
  return {.n_tokens = n_tokens,
          .longest = inputs.longest,
          .tokens = input<const GpuToken>(inputs.tokens, n_tokens),
          .pages = input<const int32_t>(inputs.pages, inputs.n_pages),
          .angles = input<const float>(inputs.angles, n_tokens * spec_.rope.rotary_dims),
          .are_newest = inputs.are_newest};
}

Result<void> GpuDecoder::run(const StepTokens& step, const Inputs& inputs) {
  PENSTOCK_TRY(to_device_.copy_to_device(queue(), 0, inputs_.take(inputs.bytes)));
  const GpuRows<float> x = {input<float>(inputs.stream, step.n_tokens() * spec_.hidden_dim),
                            step.n_tokens(), spec_.hidden_dim, spec_.hidden_dim};
  PENSTOCK_TRY(run_layers(step, inputs, x));
  return queue_logits(inputs, x);
}

// The rows of slices with a range of layers are the last ones: where the range ends, the rest goes
// on without them.
Result<void> GpuDecoder::run_layers(const StepTokens& step, const Inputs& inputs,
                                    GpuRows<float> x) {
  const auto slices = step.slices();
  const size_t n_whole = n_whole_slices(slices);
  const int64_t n_rows_whole = n_whole < slices.size() ? step.first_row(n_whole) : x.n_rows;
  const LayerRange range =
      n_whole < slices.size() ? *slices[n_whole].layers : LayerRange{.end = spec_.n_layers()};
  for (int layer = 0; layer < spec_.n_layers(); ++layer) {
    const bool has_all = range.begin <= layer && layer < range.end;
    const int64_t n = has_all ? x.n_rows : n_rows_whole;
    if (n == 0) continue;
    PENSTOCK_TRY(run_attention(layer, step_tokens(inputs, n), x.rows(0, n)));
    PENSTOCK_TRY(run_ffn(layer, x.rows(0, n)));
  }
  if (range.end == spec_.n_layers()) return {};
  const auto left = x.rows(n_rows_whole, x.n_rows - n_rows_whole);
  return to_host_.copy_to_host(queue(), stream_at_, left.data.as<const std::byte>());
}

GpuAttentionShape GpuDecoder::attention_shape(int layer) const {
  const auto qkv_numbers =
      static_cast<int32_t>((spec_.n_heads + 2 * spec_.n_kv_heads) * spec_.head_dim);
  return {.n_heads = spec_.n_heads,
          .n_kv_heads = spec_.n_kv_heads,
          .head_dim = spec_.head_dim,
          .layer = layer,
          .window = static_cast<int32_t>(layers_[static_cast<size_t>(layer)].attention.window),
          .half = spec_.rope.rotary_dims / 2,
          .interleaved = spec_.rope.pairs == RopePairs::kInterleaved,
          .q_stride = qkv_numbers,
          .kv_stride = qkv_numbers,
          .eps = static_cast<float>(spec_.rms_eps),
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.head_dim)))};
}

Result<void> GpuDecoder::run_attention(int layer, const GpuStepTokens& tokens, GpuRows<float> x) {
  const GpuAttentionWeights& weights = parts_.weights.layer(layer).attention;
  const GpuAttentionShape shape = attention_shape(layer);
  const GpuRows<uint16_t> h = h_.rows(x.n_rows, x.cols, bf16_stride(x.cols));
  const GpuRows<float> qkv = qkv_.rows(x.n_rows, shape.q_stride, shape.q_stride);
  PENSTOCK_TRY(weights.qkv.multiply_normed(queue(), {x, weights.norm, shape.eps}, h, qkv));

  const auto from = [&](int64_t numbers) {
    const auto first = static_cast<size_t>(numbers);
    return qkv.data.subspan(first, qkv.data.size() - first);
  };
  const DeviceSpan<float> k = from(int64_t{spec_.n_heads} * spec_.head_dim);
  const DeviceSpan<float> v = from(int64_t{spec_.n_heads + spec_.n_kv_heads} * spec_.head_dim);
  const int64_t out_cols = int64_t{spec_.n_heads} * spec_.head_dim;
  const GpuRows<uint16_t> out = heads_out_.rows(x.n_rows, out_cols, bf16_stride(out_cols));
  if (tokens.are_newest && has_gpu_attention_newest(spec_.head_dim)) {
    const GpuAttentionInput input = {qkv.data, k, v, weights.q_norm, weights.k_norm};
    PENSTOCK_TRY(attend_newest(shape, tokens, input, out));
  } else {
    PENSTOCK_TRY(gpu_attention_store(queue(), shape, tokens, qkv.data, k, v, weights.q_norm,
                                     weights.k_norm, kv()));
    PENSTOCK_TRY(attend(shape, tokens, qkv, out));
  }
  return weights.output.multiply(queue(), out, x, /*adds=*/true);
}

// Tokens of a step whose splits can be kept at a time, one after the other: f(first, the tokens).
template <class F>
Result<void> GpuDecoder::for_tokens_at_once(const GpuStepTokens& tokens, F f) {
  const int64_t at_once = attended_at_once(GpuSplits::of(tokens.longest), tokens.n_tokens);
  for (int64_t first = 0; first < tokens.n_tokens; first += at_once) {
    const int64_t n = std::min(at_once, tokens.n_tokens - first);
    GpuStepTokens some = tokens;
    some.n_tokens = n;
    some.tokens = tokens.tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(n));
    const int64_t angles = spec_.rope.rotary_dims;
    some.angles =
        tokens.angles.subspan(static_cast<size_t>(first * angles), static_cast<size_t>(n * angles));
    PENSTOCK_TRY(f(first, some));
  }
  return {};
}

Result<void> GpuDecoder::attend_newest(const GpuAttentionShape& shape, const GpuStepTokens& tokens,
                                       const GpuAttentionInput& input, GpuRows<uint16_t> out) {
  const GpuSplits splits = GpuSplits::of(tokens.longest);
  return for_tokens_at_once(tokens, [&](int64_t first, const GpuStepTokens& some) {
    const auto behind = [&](auto span) {
      const auto skipped = static_cast<size_t>(first * shape.q_stride);
      return span.subspan(skipped, span.size() - skipped);
    };
    GpuAttentionInput of_some = input;
    of_some.q = behind(input.q);
    of_some.k = behind(input.k);
    of_some.v = behind(input.v);
    return gpu_attention_newest(
        queue(), shape, some, of_some, kv(), splits,
        split_parts_.take(splits.part_numbers(shape, some.n_tokens)),
        split_stats_.take(splits.stat_numbers(shape, some.n_tokens)),
        arrived_.take(static_cast<size_t>(some.n_tokens * shape.n_kv_heads)),
        out.rows(first, some.n_tokens));
  });
}

Result<void> GpuDecoder::attend(const GpuAttentionShape& shape, const GpuStepTokens& tokens,
                                GpuRows<float> qkv, GpuRows<uint16_t> out) {
  const GpuSplits splits = GpuSplits::of(tokens.longest);
  return for_tokens_at_once(tokens, [&](int64_t first, const GpuStepTokens& some) {
    return gpu_attention(queue(), shape, some, qkv.rows(first, some.n_tokens).data, kv(), splits,
                         split_parts_.take(splits.part_numbers(shape, some.n_tokens)),
                         split_stats_.take(splits.stat_numbers(shape, some.n_tokens)),
                         out.rows(first, some.n_tokens));
  });
}

Result<void> GpuDecoder::run_ffn(int layer, GpuRows<float> x) {
  const GpuLayerWeights& weights = parts_.weights.layer(layer);
  const GpuNormed normed = {x, weights.ffn_norm, static_cast<float>(spec_.rms_eps)};
  const GpuRows<uint16_t> h = h_.rows(x.n_rows, x.cols, bf16_stride(x.cols));
  const auto gate_up = [&](const GpuFfnWeights& ffn) {
    return gate_up_.rows(x.n_rows, ffn.gate_up.rows, ffn.gate_up.rows);
  };
  if (!std::holds_alternative<MoePart>(layers_[static_cast<size_t>(layer)].ffn)) {
    const GpuFfnWeights& dense = weights.dense;
    PENSTOCK_TRY(dense.gate_up.multiply_normed(queue(), normed, h, gate_up(dense)));
    return run_dense(dense, gate_up(dense), x);
  }
  PENSTOCK_TRY(run_experts(layer, normed, h, x));
  const GpuFfnWeights& shared = weights.moe.shared;
  if (shared.down.parts.empty()) return {};
  PENSTOCK_TRY(shared.gate_up.multiply(queue(), h, gate_up(shared), /*adds=*/false));
  return run_dense(shared, gate_up(shared), x);
}

// Behind its first product.
Result<void> GpuDecoder::run_dense(const GpuFfnWeights& ffn, GpuRows<float> gate_up,
                                   GpuRows<float> x) {
  const int64_t dim = ffn.gate_up.rows / 2;
  const auto first = static_cast<size_t>(dim);
  const GpuRows<float> up = {gate_up.data.subspan(first, gate_up.data.size() - first), x.n_rows,
                             dim, gate_up.stride};
  const GpuRows<uint16_t> act = act_.rows(x.n_rows, dim, bf16_stride(dim));
  PENSTOCK_TRY(gpu_swiglu(queue(), gate_up, up, act));
  return ffn.down.multiply(queue(), act, x, /*adds=*/true);
}

// Leaves the normed rows in h.
Result<void> GpuDecoder::route(int layer, const GpuRouter& router, const GpuRouting& routing,
                               const GpuNormed& normed, GpuRows<uint16_t> h) {
  const GpuMoeWeights& moe = parts_.weights.layer(layer).moe;
  const auto logits = router_logits_.take(static_cast<size_t>(h.n_rows * router.n_experts));
  const GpuExpertCalls calls = calls_for_experts_ ? cache_->calls_of(layer) : GpuExpertCalls{};
  const bool is_grouped = !cache_ || calls_for_experts_;
  if (is_grouped && h.n_rows <= kGpuRouterTokens) {
    const GpuRouterInput input = {moe.router, normed, h, logits, arrived_.take(1)};
    return gpu_norm_route(queue(), input, router, moe.router_bias, routing, calls);
  }
  const GpuRows<float> h_float = h_float_.rows(h.n_rows, h.cols, h.cols);
  PENSTOCK_TRY(gpu_rms_norm(queue(), normed.x, {}, normed.weight, normed.eps, h, h_float));
  PENSTOCK_TRY(gpu_router_logits(queue(), moe.router, h_float, logits));
  return is_grouped
             ? gpu_route(queue(), router, h.n_rows, logits, moe.router_bias, routing, calls)
             : gpu_router_choose(queue(), router, h.n_rows, logits, moe.router_bias, routing);
}

Result<void> GpuDecoder::run_experts(int layer, const GpuNormed& normed, GpuRows<uint16_t> h,
                                     GpuRows<float> x) {
  const GpuMoeWeights& moe = parts_.weights.layer(layer).moe;
  const auto n_experts = moe.router.shape.rows;
  const GpuRouter router = gpu_router(spec_.moe.router, n_experts, spec_.moe.top_k);
  const auto n_rows = static_cast<size_t>(x.n_rows * router.top_k);
  const GpuRouting routing = {.slots = cache_ ? cache_->slots_of(layer) : moe.slots,
                              .experts = chosen_.take(n_rows),
                              .weights = router_weights_.take(n_rows),
                              .groups = groups_.take(static_cast<size_t>(n_experts)),
                              .n_groups = n_groups_.take(static_cast<size_t>(n_experts)),
                              .row_of = row_of_.take(n_rows),
                              .token_of = token_of_.take(n_rows)};
  PENSTOCK_TRY(route(layer, router, routing, normed, h));
  if (cache_ && !calls_for_experts_) return run_cached_experts(layer, router, routing, h, x);
  const GpuAssignments all = assignments(routing, x.n_rows, n_experts);
  if (!can_combine_at_once(moe.experts, all)) {
    PENSTOCK_TRY(run_groups(moe.experts, all, h));
    return combine(all, x);
  }
  const GpuRows<uint16_t> act = activations(moe.experts, all);
  PENSTOCK_TRY(gpu_experts_gate_up(queue(), moe.experts, all, h, act));
  return gpu_experts_down_combine(queue(), moe.experts, all, act, x);
}

GpuRows<uint16_t> GpuDecoder::activations(const GpuExperts& experts,
                                          const GpuAssignments& assignments) const {
  const int64_t dim = experts.gate_up_shape.rows;
  return act_.rows(assignments.n_rows(), dim, bf16_stride(dim));
}

GpuAssignments GpuDecoder::assignments(const GpuRouting& routing, int64_t n_tokens,
                                       int n_experts) const {
  return {.n_tokens = n_tokens,
          .top_k = spec_.moe.top_k,
          .n_experts = n_experts,
          .groups = routing.groups,
          .n_groups = routing.n_groups,
          .row_of = routing.row_of,
          .token_of = routing.token_of,
          .weights = routing.weights};
}

// The host waits for the layer's choice, groups it, and has the experts that are missing copied: as
// many at a time as there are slots.
Result<void> GpuDecoder::run_cached_experts(int layer, const GpuRouter& router,
                                            const GpuRouting& routing, GpuRows<const uint16_t> h,
                                            GpuRows<float> x) {
  Driver& driver = *parts_.driver;
  const size_t chosen_bytes = routing.experts.size_bytes();
  PENSTOCK_TRY(chosen_host_.reserve(*parts_.pins, chosen_bytes));
  PENSTOCK_TRY(
      chosen_host_.copy_to_host(queue(), 0, ConstDeviceBytes(routing.experts.as<std::byte>())));
  PENSTOCK_TRY(settled(driver, driver.synchronise(parts_.stream.id())));
  const std::span<const int32_t> chosen(
      reinterpret_cast<const int32_t*>(chosen_host_.bytes().data()), routing.experts.size());
  HostAssignments host = group_by_expert(chosen, router.top_k, router.n_experts);

  // Staged one behind the other; the stream was idle, so nothing is still read from there.
  const auto n_experts = static_cast<size_t>(router.n_experts);
  PENSTOCK_TRY(groups_host_.reserve(
      *parts_.pins, 2 * chosen_bytes + n_experts * (sizeof(GpuExpertGroup) + sizeof(int32_t))));
  size_t staged = 0;
  const auto send = [&](const auto& values, DeviceBytes to) -> Result<void> {
    const auto bytes = std::as_bytes(values);
    std::ranges::copy(bytes, groups_host_.bytes().begin() + static_cast<ptrdiff_t>(staged));
    PENSTOCK_TRY(groups_host_.copy_to_device(queue(), staged, to.subspan(0, bytes.size())));
    staged += bytes.size();
    return {};
  };
  PENSTOCK_TRY(send(std::span<const int32_t>(host.row_of), routing.row_of.as<std::byte>()));
  PENSTOCK_TRY(send(std::span<const int32_t>(host.token_of), routing.token_of.as<std::byte>()));
  const GpuAssignments all = assignments(routing, x.n_rows, router.n_experts);
  std::span<GpuExpertGroup> left = host.groups;
  for (size_t first = 0, wave = 0; !left.empty(); ++wave) {
    PENSTOCK_ASSIGN(const size_t n, cache_->bring(queue(), layer, left));
    const auto groups = routing.groups.subspan(first, n);
    const auto n_groups = routing.n_groups.subspan(wave, 1);
    const auto count = static_cast<int32_t>(n);
    PENSTOCK_TRY(send(std::span<const GpuExpertGroup>(left.first(n)), groups.as<std::byte>()));
    PENSTOCK_TRY(send(std::span<const int32_t>(&count, 1), n_groups.as<std::byte>()));
    GpuAssignments of_wave = all;
    of_wave.groups = groups;
    of_wave.n_groups = n_groups;
    of_wave.n_experts = count;
    PENSTOCK_TRY(run_groups(parts_.weights.layer(layer).moe.experts, of_wave, h));
    left = left.subspan(n);
    first += n;
  }
  return combine(all, x);
}

Result<void> GpuDecoder::run_groups(const GpuExperts& experts, const GpuAssignments& assignments,
                                    GpuRows<const uint16_t> h) {
  const GpuRows<uint16_t> act = activations(experts, assignments);
  const GpuRows<float> out =
      expert_out_.rows(assignments.n_rows(), spec_.hidden_dim, spec_.hidden_dim);
  PENSTOCK_TRY(gpu_experts_gate_up(queue(), experts, assignments, h, act));
  return gpu_experts_down(queue(), experts, assignments, act, out);
}

Result<void> GpuDecoder::combine(const GpuAssignments& assignments, GpuRows<float> x) {
  const GpuRows<float> out = expert_out_.rows(assignments.n_rows(), x.cols, x.cols);
  return gpu_experts_combine(queue(), assignments, out, x);
}

Result<void> GpuDecoder::queue_logits(const Inputs& inputs, GpuRows<const float> x) {
  if (inputs.n_logit_rows == 0) return {};
  const int64_t n = inputs.n_logit_rows;
  // h holds a step's tokens: all of them, at most, are asked for.
  const GpuRows<uint16_t> h = h_.rows(n, x.cols, bf16_stride(x.cols));
  PENSTOCK_TRY(gpu_rms_norm(queue(), x, input<const int32_t>(inputs.logit_rows, n),
                            parts_.weights.final_norm(), static_cast<float>(spec_.rms_eps), h, {}));
  const GpuRows<float> logits = logits_.rows(n, spec_.vocab_size, spec_.vocab_size);
  PENSTOCK_TRY(gpu_matmul(queue(), parts_.weights.head(), h, {}, logits, /*adds=*/false));
  return to_host_.copy_to_host(queue(), 0, logits.data.as<const std::byte>());
}

void GpuDecoder::hand_over(const StepTokens& step, std::span<float> logits) const {
  const std::byte* const memory = to_host_.bytes().data();
  if (!logits.empty()) std::memcpy(logits.data(), memory, logits.size_bytes());
  const auto slices = step.slices();
  const size_t n_whole = n_whole_slices(slices);
  if (n_whole == slices.size() || slices[n_whole].layers->end == spec_.n_layers()) return;
  const std::byte* from = memory + stream_at_;
  for (const SequenceSlice& slice : slices.subspan(n_whole)) {
    const std::span<float> stream = slice.layers->stream;
    std::memcpy(stream.data(), from, stream.size_bytes());
    from += stream.size_bytes();
  }
}

}  // namespace penstock
