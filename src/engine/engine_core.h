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
#include "engine/request.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler.h"
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

  EngineCore(std::unique_ptr<LanguageModel> model, std::vector<int32_t> eos_ids,
             SchedulerOptions options, Log log, Clock clock = steady_seconds);
  static double steady_seconds();

  int64_t context_limit() const { return context_limit_; }
  // Refuses a request that can never run, with what it has and what there is.
  Result<void> check(const GenerationRequest& request) const;

  // Takes a request that passed check().
  void add(std::unique_ptr<ActiveRequest> request);
  // Ends what was aborted, then runs one step. False: there was nothing to run.
  bool step();
  // Ends every request with `error`.
  void end_all(const Error& error);

  // Gives up every page that only the prefix cache holds; how many.
  int64_t drop_cache() { return scheduler_.drop_cache(); }
  // While there is nothing else to do: makes memory for pages to come ready, a little of it.
  // Whether some is left.
  bool ready_pages();

  int64_t n_steps() const { return n_steps_; }
  const StepSeconds& seconds() const { return seconds_; }
  std::optional<ExpertCounts> expert_counts() const { return model_->expert_counts(); }
  bool idle() const { return requests_.empty(); }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
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
  Scheduler scheduler_;
  std::vector<std::unique_ptr<ActiveRequest>> requests_;
  int64_t n_steps_ = 0;
  StepSeconds seconds_;
  std::vector<std::shared_ptr<EventSink>> pushed_to_;  // since the last deliver()
  std::vector<float> logits_;     // scratch space: [slices that choose a token, vocab_size]
  std::vector<PageId> page_ids_;  // scratch space: of all slices, one after the other
};

}  // namespace penstock
