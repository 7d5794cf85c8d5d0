// The engine's thread: takes requests from any thread through a bounded queue, runs the model step
// by step, and gives each request's events to its sink.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "engine/engine_core.h"
#include "engine/request.h"
#include "model/language_model.h"

namespace penstock {

// A request that the engine took. Move-only: whoever gives up the handle gives up the answer.
class RequestHandle {
 public:
  explicit RequestHandle(std::shared_ptr<std::atomic<bool>> aborted)
      : aborted_(std::move(aborted)) {}
  RequestHandle(RequestHandle&&) noexcept = default;
  RequestHandle& operator=(RequestHandle&& other) noexcept;
  ~RequestHandle() { abort(); }

  // Ends the request before the engine's next step, whatever its stage. Again, or after its end:
  // does nothing.
  void abort();

 private:
  // Relaxed: it publishes nothing but itself, and is read before every step.
  std::shared_ptr<std::atomic<bool>> aborted_;
};

struct EngineOptions {
  int64_t max_waiting = 256;  // requests that no step has begun; more are refused
  SchedulerOptions scheduler = {};
};

struct EngineStats {
  int64_t n_waiting = 0;
  int64_t n_running = 0;
  int64_t n_pages = 0;
  int64_t n_free_pages = 0;
  int64_t n_cached_pages = 0;  // only the prefix cache holds them: as good as free
  // Since the start:
  int64_t n_steps = 0;
  SchedulerCounts counts = {};
  StepSeconds seconds = {};
  LoneDecode lone_decode = {};
  std::optional<ExpertCounts> experts = {};  // nothing where all are in memory
  std::optional<KvTierCounts> spill = {};    // nothing without one
};

// Thread-safe.
class Engine {
 public:
  // eos_ids: engine/text_setup.h, end_ids.
  static std::unique_ptr<Engine> start(std::unique_ptr<LanguageModel> model,
                                       std::vector<int32_t> eos_ids, EngineOptions options, Log log,
                                       std::unique_ptr<KvTier> spill = nullptr);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Ends what is running with a kCancelled error, after at most one step.
  ~Engine();

  // Errors: kInvalidArgument for a request that can never run (with the numbers), kExhausted when
  // the queue is full. The sink is held until its last event has been pushed.
  Result<RequestHandle> submit(GenerationRequest request, std::shared_ptr<EventSink> sink);

  // Gives up every page that only the prefix cache holds, between two steps, and all spilled ones;
  // how many of the former.
  int64_t drop_cache();

  // The most tokens a sequence can have: the model's context, or what the KV pages hold.
  int64_t context_limit() const { return core_.context_limit(); }
  EngineStats stats() const;

 private:
  Engine(std::unique_ptr<LanguageModel> model, std::vector<int32_t> eos_ids, EngineOptions options,
         Log log, std::unique_ptr<KvTier> spill);
  void run();
  // Spills what is left of the prefix cache, as long as it may take.
  void spill_the_rest();
  // Moves what was submitted into the core and drops the cache for who asked for it, waiting while
  // there is nothing to do. False: stop.
  bool take_submitted();
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  void publish_stats();

  const EngineOptions options_;
  EngineCore core_;  // the engine's thread, but for its constants

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<ActiveRequest>> submitted_;  // under mutex_
  std::vector<std::promise<int64_t>> cache_drops_;         // under mutex_; asked for
  EngineStats stats_;                                      // under mutex_; as of the last step
  bool stopping_ = false;                                  // under mutex_
  std::thread thread_;
};

}  // namespace penstock
