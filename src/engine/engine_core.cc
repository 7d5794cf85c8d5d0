#include "engine/engine_core.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "os/cpu_time.h"

namespace penstock {
namespace {

Error invalid(std::string_view param, std::string message) {
  Error error{ErrorKind::kInvalidArgument, std::move(message)};
  error.param = param;
  return error;
}

std::optional<PrefixSpill> make_spill(KvTier* tier, LanguageModel& model) {
  if (tier == nullptr) return std::nullopt;
  PENSTOCK_CHECK(model.n_states() == 0 && model.page_memory(PageId{0}).size() == tier->page_bytes(),
                 "a spill for other pages than the model's");
  return PrefixSpill(*tier, [&model](PageId page) { return model.page_memory(page); });
}

}  // namespace

ActiveRequest::ActiveRequest(GenerationRequest request, std::shared_ptr<EventSink> events)
    : sampler(std::move(request.sampling), std::move(request.token_mask)),
      end_ids(std::move(request.stop_ids)),
      ignore_eos(request.ignore_eos),
      max_tokens(request.max_tokens),
      sink(std::move(events)),
      aborted(std::make_shared<std::atomic<bool>>(false)) {
  sequence.n_prompt = static_cast<int64_t>(request.prompt.size());
  sequence.tokens = std::move(request.prompt);
  sequence.content = std::move(request.content);
  sequence.snapshot_at = std::move(request.snapshot_at);
  sequence.prefix_scope = std::move(request.prefix_scope);
  sequence.use_prefix_cache = request.use_prefix_cache;
}

EngineCore::EngineCore(std::unique_ptr<LanguageModel> model, std::vector<int32_t> eos_ids,
                       SchedulerOptions options, Log log, Clock clock,
                       std::unique_ptr<KvTier> spill)
    : log_(std::move(log)),
      clock_(std::move(clock)),
      model_(std::move(model)),
      eos_ids_(std::move(eos_ids)),
      vocab_size_(model_->spec().vocab_size),
      context_limit_(std::min(model_->spec().context_length, model_->n_pages() * kPageTokens)),
      tier_(std::move(spill)),
      spill_(make_spill(tier_.get(), *model_)),
      scheduler_(options, model_->spec().n_layers(), model_->n_pages(), model_->n_states(),
                 spill_ ? &*spill_ : nullptr) {}

double EngineCore::steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Result<void> EngineCore::check(const GenerationRequest& request) const {
  const auto n_prompt = static_cast<int64_t>(request.prompt.size());
  if (n_prompt == 0) return std::unexpected(invalid("prompt", "the prompt has no tokens"));
  if (n_prompt > context_limit_) {
    return std::unexpected(
        invalid("prompt", fmt::format("the prompt has {} tokens, but {} {}", n_prompt,
                                      context_limit_ < model_->spec().context_length
                                          ? "the KV cache was given room for"
                                          : "this model's maximum context length is",
                                      context_limit_)));
  }
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int32_t id = request.prompt[i];
    if (id >= 0 && id < vocab_size_) continue;
    return std::unexpected(invalid(
        "prompt", fmt::format("token {} of the prompt is id {}, but the vocabulary is [0, {})", i,
                              id, vocab_size_)));
  }
  if (request.max_tokens < 1) {
    return std::unexpected(invalid(
        "max_tokens", fmt::format("max_tokens is {}, but must be at least 1", request.max_tokens)));
  }
  if (request.sampling.min_tokens > request.max_tokens) {
    return std::unexpected(
        invalid("min_tokens", fmt::format("min_tokens is {}, but max_tokens only {}",
                                          request.sampling.min_tokens, request.max_tokens)));
  }
  return validate(request.sampling, vocab_size_);
}

void EngineCore::add(std::unique_ptr<ActiveRequest> request) {
  Sequence& sequence = request->sequence;
  if (!request->ignore_eos) {
    request->end_ids.insert(request->end_ids.end(), eos_ids_.begin(), eos_ids_.end());
  }
  // The last token of an answer is never computed, so it needs no place.
  request->max_tokens = std::min(request->max_tokens, context_limit_ - sequence.n_prompt + 1);
  sequence.max_positions = sequence.n_prompt + request->max_tokens - 1;
  const RopeType rope = model_->spec().rope.type;
  if (rope == RopeType::kDynamic || rope == RopeType::kLongrope) {
    // The planned length decides how keys are rotated: only the same one may share them.
    sequence.prefix_scope += fmt::format("|{}", sequence.max_positions);
  }
  scheduler_.add(&sequence);
  requests_.push_back(std::move(request));
}

bool EngineCore::step() {
  const double began = clock_();
  const double cpu_began = thread_cpu_seconds();
  end_aborted();
  take_restored();
  const StepPlan plan = scheduler_.plan();
  waits_for_spill_ = plan.slices.empty() && !requests_.empty();
  if (plan.slices.empty()) {
    deliver();
    return false;
  }
  ++n_steps_;
  const double planned = clock_();
  const double cpu_planned = thread_cpu_seconds();
  const bool is_lone = plan.slices.size() == 1 && plan.slices.front().is_generated();
  announce(plan.slices);
  deliver();
  prepare(plan);
  const Result<void> done = run_model(plan.slices);
  const double computed = clock_();
  const double cpu_computed = thread_cpu_seconds();
  if (done) {
    for (const StateCopy& copy : scheduler_.computed(plan.slices, computed - planned)) {
      model_->copy_state(copy.from, copy.to);
    }
    drop_streams(plan.slices);
    sample(plan.slices);
  } else {
    Scheduler::failed(plan.slices);
    log_.error("step failed, ending its {} requests: {}", plan.slices.size(), done.error().text());
    for (const PlannedSlice& slice : plan.slices) end(owner(slice.sequence), done.error());
  }
  deliver();
  if (is_lone && done) {
    ++lone_decode_.n_steps;
    lone_decode_.seconds += clock_() - began;
  }
  // One: its copy takes well under a millisecond, but a small model's step little more.
  if (can_spill()) spill_one();
  seconds_.plan += planned - began;
  seconds_.model += computed - planned;
  seconds_.sample += clock_() - computed;
  seconds_.bookkeeping_cpu += cpu_planned - cpu_began + thread_cpu_seconds() - cpu_computed;
  return true;
}

void EngineCore::take_restored() {
  if (tier_ == nullptr) return;
  for (const KvTier::Restored& restored : tier_->take_restored()) {
    scheduler_.restored(restored.id, restored.n_pages);
  }
}

int64_t EngineCore::drop_cache() {
  const int64_t n_dropped = scheduler_.drop_cache();
  if (tier_ != nullptr) tier_->forget_all();
  return n_dropped;
}

bool EngineCore::can_spill() const {
  return tier_ != nullptr && tier_->has_room() && scheduler_.has_unspilled();
}

bool EngineCore::has_unspilled() const {
  return tier_ != nullptr && tier_->takes_pages() && scheduler_.has_unspilled();
}

bool EngineCore::work_ahead() {
  if (ready_pages()) return true;
  if (!can_spill()) return false;
  spill_one();
  return true;
}

bool EngineCore::ready_pages() {
  constexpr int64_t kTokensAhead = 8192;  // a long prompt's
  const PagePool& pool = scheduler_.pool();
  const int64_t n_held = pool.n_all() - pool.n_free();
  return model_->ready_pages(std::min(pool.n_all(), n_held + pages_for(kTokensAhead)));
}

void EngineCore::end_all(const Error& error) {
  while (!requests_.empty()) end(*requests_.back(), error);
  deliver();
}

bool EngineCore::push(const ActiveRequest& request, Event event) {
  pushed_to_.push_back(request.sink);
  return request.sink->push(std::move(event));
}

void EngineCore::deliver() {
  for (const auto& sink : pushed_to_) sink->deliver();
  pushed_to_.clear();
}

void EngineCore::end_aborted() {
  for (size_t i = requests_.size(); i-- > 0;) {
    if (requests_[i]->aborted->load(std::memory_order_relaxed)) {
      end(*requests_[i], RequestEnd{.reason = EndReason::kAborted});
    }
  }
}

void EngineCore::announce(std::span<const PlannedSlice> slices) {
  for (const PlannedSlice& slice : slices) {
    ActiveRequest& request = owner(slice.sequence);
    if (std::exchange(request.has_begun, true)) continue;
    push(request, BeginEvent{.n_prompt_cached = slice.sequence->n_prompt_cached});
  }
}

void EngineCore::prepare(const StepPlan& plan) {
  for (const PlannedCopy& copy : plan.copies) model_->copy_page(copy.from.id(), copy.to);
  for (const PlannedState& state : plan.states) {
    if (state.from) {
      model_->copy_state(state.from->id(), state.to);
    } else {
      model_->clear_state(state.to);
    }
  }
}

Result<void> EngineCore::run_model(std::span<const PlannedSlice> slices) {
  size_t n_rows = 0;
  page_ids_.clear();
  for (const PlannedSlice& slice : slices) {
    n_rows += slice.is_last() ? 1 : 0;
    for (const PageRef& page : slice.sequence->pages) page_ids_.push_back(page.id());
  }
  logits_.resize(n_rows * static_cast<size_t>(vocab_size_));

  std::vector<SequenceSlice> batch;
  size_t first_page = 0;
  for (const PlannedSlice& slice : slices) {
    const Sequence& sequence = *slice.sequence;
    batch.push_back(
        {.tokens = std::span(sequence.tokens)
                       .subspan(static_cast<size_t>(slice.begin),
                                static_cast<size_t>(slice.end - slice.begin)),
         .position = slice.begin,
         .pages = std::span(page_ids_).subspan(first_page, sequence.pages.size()),
         .state = sequence.state ? std::optional(sequence.state->id()) : std::nullopt,
         .planned_length = sequence.max_positions,
         .logits = slice.is_last() ? LogitRows::kLast : LogitRows::kNone,
         .origin = slice.is_generated() ? TokenOrigin::kGenerated : TokenOrigin::kPrompt,
         .layers = layers_of(slice)});
    first_page += sequence.pages.size();
  }
  try {
    return model_->step(batch, logits_);
  } catch (
      const std::exception& error) {  // bad_alloc, or a library's: these requests end, others live
    return fail(ErrorKind::kInternal, "the model's step failed: {}", error.what());
  }
}

std::optional<LayerRange> EngineCore::layers_of(const PlannedSlice& slice) {
  if (slice.is_whole()) return std::nullopt;
  std::vector<float>& stream = owner(slice.sequence).stream;
  stream.resize(static_cast<size_t>((slice.end - slice.begin) * model_->spec().hidden_dim));
  return LayerRange{.begin = slice.first_layer, .end = slice.end_layer, .stream = stream};
}

void EngineCore::drop_streams(std::span<const PlannedSlice> slices) {
  for (const PlannedSlice& slice : slices) {
    if (slice.is_through() && !slice.is_whole()) owner(slice.sequence).stream = {};
  }
}

void EngineCore::sample(std::span<const PlannedSlice> slices) {
  const auto vocab_size = static_cast<size_t>(vocab_size_);
  size_t row = 0;
  for (const PlannedSlice& slice : slices) {
    if (!slice.is_last()) continue;
    sample_one(owner(slice.sequence), std::span(logits_).subspan(row * vocab_size, vocab_size));
    ++row;
  }
}

void EngineCore::sample_one(ActiveRequest& request, std::span<float> logits) {
  Sequence& sequence = request.sequence;
  Result<SampledToken> token = request.sampler.sample(
      logits, {.tokens = sequence.tokens, .n_prompt = static_cast<size_t>(sequence.n_prompt)},
      request.end_ids);
  if (!token) return end(request, token.error());
  const int32_t id = token->id;
  if (std::ranges::find(request.end_ids, id) != request.end_ids.end()) {
    return end(request, RequestEnd{.reason = EndReason::kStop, .stop_id = id});
  }
  if (!push(request, TokenEvent{id, token->logprob, std::move(token->top)})) {
    return end(request, RequestEnd{.reason = EndReason::kAborted});
  }
  if (request.n_generated() + 1 == request.max_tokens) {
    return end(request, RequestEnd{.reason = EndReason::kLength});
  }
  sequence.tokens.push_back(id);
}

ActiveRequest& EngineCore::owner(const Sequence* sequence) {
  const auto found = std::ranges::find_if(
      requests_, [&](const auto& request) { return &request->sequence == sequence; });
  PENSTOCK_CHECK(found != requests_.end(), "a planned sequence without a request");
  return **found;
}

void EngineCore::end(ActiveRequest& request, Event event) {
  scheduler_.remove(&request.sequence);
  push(request, std::move(event));
  std::erase_if(requests_, [&](const auto& other) { return other.get() == &request; });
}

}  // namespace penstock
