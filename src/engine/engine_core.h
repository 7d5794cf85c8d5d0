// Requests on a model, one step at a time: what the engine's thread does, without the thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "engine/prefix_spill.h"
#include "engine/request.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler.h"
#include "memory/kv_spill/kv_tier.h"
#include "model/language_model.h"

namespace penstock {

// Where the engine's time went, in seconds since its start.
struct StepSeconds {
  double plan = 0.0;
  double model = 0.0;
  double sample = 0.0;  // and giving the tokens to their sinks
  // Processor time of planning and sampling alone: the server's threads may hold the engine up.
  double bookkeeping_cpu = 0.0;
};

// Steps of one sequence's next token and nothing else: how a single stream decodes.
struct LoneDecode {
  int64_t n_steps = 0;
  double seconds = 0.0;  // from the step's begin to the token's delivery
};

// A request from its submission to its last event.
struct ActiveRequest {
  ActiveRequest(GenerationRequest request, std::shared_ptr<EventSink> sink);

  Sequence sequence;
  Sampler sampler;
  std::vector<int32_t> end_ids;  // the request's stop ids, then the model's eos ids if they count
  bool ignore_eos;
  int64_t max_tokens;
  std::shared_ptr<EventSink> sink;
  std::shared_ptr<std::atomic<bool>> aborted;
  bool has_begun = false;  // its BeginEvent has been pushed
  // Of the chunk that crosses the model: [tokens, hidden_dim], between two of its steps.
  std::vector<float> stream = {};

  int64_t n_generated() const { return sequence.size() - sequence.n_prompt; }
};

// One thread: the engine's; but check() and context_limit() read only what never changes.
class EngineCore {
 public:
  // Seconds since any fixed moment; never goes back.
  using Clock = std::function<double()>;

  // spill: null, or where pages of the prefix cache go; of the model's page size.
  EngineCore(std::unique_ptr<LanguageModel> model, std::vector<int32_t> eos_ids,
             SchedulerOptions options, Log log, Clock clock = steady_seconds,
             std::unique_ptr<KvTier> spill = nullptr);
  static double steady_seconds();

  int64_t context_limit() const { return context_limit_; }
  // Refuses a request that can never run, with what it has and what there is.
  Result<void> check(const GenerationRequest& request) const;

  // Takes a request that passed check().
  void add(std::unique_ptr<ActiveRequest> request);
  // Ends what was aborted, then runs one step. False: there was nothing to run, or all of it waits
  // for the spill.
  bool step();
  // Ends every request with `error`.
  void end_all(const Error& error);

  // Gives up every page that only the prefix cache holds, and all that were spilled; how many of
  // the former.
  int64_t drop_cache();
  // While there is nothing else to do: makes memory for pages to come ready, and spills some.
  // Whether some of it is left that can be done now.
  bool work_ahead();

  // Whether the spill would take a page now that it has not.
  bool can_spill() const;
  void spill_one() { scheduler_.spill_one(); }
  // Whether it may take one later.
  bool has_unspilled() const;
  // Whether a step would find something to run.
  bool can_step() const { return !requests_.empty() && (!waits_for_spill_ || has_restored()); }
  // Null: there is none.
  KvTier* spill() const { return tier_.get(); }

  int64_t n_steps() const { return n_steps_; }
  const StepSeconds& seconds() const { return seconds_; }
  const LoneDecode& lone_decode() const { return lone_decode_; }
  std::optional<ExpertCounts> expert_counts() const { return model_->expert_counts(); }
  bool idle() const { return requests_.empty(); }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  bool has_restored() const { return tier_ != nullptr && tier_->has_restored(); }
  void take_restored();
  bool ready_pages();
  // Pushes to its sink what deliver() then shows to the reader. False: nobody wants the rest.
  bool push(const ActiveRequest& request, Event event);
  void deliver();
  void end_aborted();
  // Tells those whose first step this is that they have begun.
  void announce(std::span<const PlannedSlice> slices);
  // What of pages and states the step begins with.
  void prepare(const StepPlan& plan);
  Result<void> run_model(std::span<const PlannedSlice> slices);
  // For a slice that crosses the model in several steps.
  std::optional<LayerRange> layers_of(const PlannedSlice& slice);
  // Of those that are through.
  void drop_streams(std::span<const PlannedSlice> slices);
  void sample(std::span<const PlannedSlice> slices);
  void sample_one(ActiveRequest& request, std::span<float> logits);
  ActiveRequest& owner(const Sequence* sequence);
  // Pushes the last event and forgets the request.
  void end(ActiveRequest& request, Event event);

  const Log log_;
  const Clock clock_;
  std::unique_ptr<LanguageModel> model_;
  const std::vector<int32_t> eos_ids_;
  const int64_t vocab_size_;
  const int64_t context_limit_;
  // Its thread may be writing to the model's pages: ends before it.
  std::unique_ptr<KvTier> tier_;
  std::optional<PrefixSpill> spill_;
  Scheduler scheduler_;
  bool waits_for_spill_ = false;  // everything, since the last step
  std::vector<std::unique_ptr<ActiveRequest>> requests_;
  int64_t n_steps_ = 0;
  LoneDecode lone_decode_;
  StepSeconds seconds_;
  std::vector<std::shared_ptr<EventSink>> pushed_to_;  // since the last deliver()
  std::vector<float> logits_;     // scratch space: [slices that choose a token, vocab_size]
  std::vector<PageId> page_ids_;  // scratch space: of all slices, one after the other
};

}  // namespace penstock
