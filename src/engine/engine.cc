#include "engine/engine.h"

#include <chrono>
#include <utility>

#include "os/thread_name.h"

namespace penstock {

RequestHandle& RequestHandle::operator=(RequestHandle&& other) noexcept {
  abort();
  aborted_ = std::move(other.aborted_);
  return *this;
}

void RequestHandle::abort() {
  if (aborted_) aborted_->store(true, std::memory_order_relaxed);
}

std::unique_ptr<Engine> Engine::start(std::unique_ptr<LanguageModel> model,
                                      std::vector<int32_t> eos_ids, EngineOptions options, Log log,
                                      std::unique_ptr<KvTier> spill) {
  std::unique_ptr<Engine> engine(
      new Engine(std::move(model), std::move(eos_ids), options, std::move(log), std::move(spill)));
  if (KvTier* const tier = engine->core_.spill()) {
    tier->set_listener([raw = engine.get()] {
      {
        const std::scoped_lock lock(raw->mutex_);
      }  // not between the engine's look and its wait
      raw->changed_.notify_one();
    });
  }
  engine->thread_ = std::thread([raw = engine.get()] { raw->run(); });
  return engine;
}

Engine::Engine(std::unique_ptr<LanguageModel> model, std::vector<int32_t> eos_ids,
               EngineOptions options, Log log, std::unique_ptr<KvTier> spill)
    : options_(options),
      core_(std::move(model), std::move(eos_ids), options.scheduler, std::move(log),
            EngineCore::steady_seconds, std::move(spill)) {
  publish_stats();
}

Engine::~Engine() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
  if (core_.spill() != nullptr) core_.spill()->set_listener(nullptr);
}

Result<RequestHandle> Engine::submit(GenerationRequest request, std::shared_ptr<EventSink> sink) {
  PENSTOCK_TRY(core_.check(request));
  auto active = std::make_unique<ActiveRequest>(std::move(request), std::move(sink));
  RequestHandle handle(active->aborted);
  {
    const std::scoped_lock lock(mutex_);
    const auto n_waiting = static_cast<int64_t>(submitted_.size()) + stats_.n_waiting;
    if (n_waiting >= options_.max_waiting) {
      return fail(ErrorKind::kExhausted, "{} requests are waiting already, of {} that may",
                  n_waiting, options_.max_waiting);
    }
    submitted_.push_back(std::move(active));
  }
  changed_.notify_one();
  return handle;
}

int64_t Engine::drop_cache() {
  std::future<int64_t> n_dropped;
  {
    const std::scoped_lock lock(mutex_);
    n_dropped = cache_drops_.emplace_back().get_future();
  }
  changed_.notify_one();
  return n_dropped.get();
}

EngineStats Engine::stats() const {
  const std::scoped_lock lock(mutex_);
  EngineStats stats = stats_;
  stats.n_waiting += static_cast<int64_t>(submitted_.size());
  if (core_.spill() != nullptr) stats.spill = core_.spill()->counts();
  return stats;
}

void Engine::run() {
  name_this_thread("engine");
  while (take_submitted()) {
    core_.step();
    publish_stats();
  }
  core_.end_all({.kind = ErrorKind::kCancelled, .message = "the engine is stopping"});
  spill_the_rest();
}

void Engine::spill_the_rest() {
  constexpr auto kLongest = std::chrono::seconds(5);  // a stop is to be quick
  const auto limit = std::chrono::steady_clock::now() + kLongest;
  while (core_.has_unspilled() && std::chrono::steady_clock::now() < limit) {
    while (core_.can_spill()) core_.spill_one();
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, limit, [&] { return core_.can_spill() || !core_.has_unspilled(); });
  }
}

bool Engine::take_submitted() {
  std::vector<std::unique_ptr<ActiveRequest>> taken;
  std::vector<std::promise<int64_t>> drops;
  bool stop = false;
  {
    std::unique_lock lock(mutex_);
    wait_for_work(lock);
    std::swap(taken, submitted_);
    std::swap(drops, cache_drops_);
    stats_.n_waiting += static_cast<int64_t>(taken.size());
    stop = stopping_;
  }
  for (auto& request : taken) core_.add(std::move(request));
  for (auto& drop : drops) {
    const int64_t n_dropped = core_.drop_cache();
    publish_stats();  // before whoever asked is told: they may look at once
    drop.set_value(n_dropped);
  }
  return !stop;
}

void Engine::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto has_work = [&] {
    return stopping_ || !submitted_.empty() || !cache_drops_.empty() || core_.can_step();
  };
  while (!has_work()) {
    lock.unlock();
    const bool is_left = core_.work_ahead();
    lock.lock();
    if (!is_left) changed_.wait(lock, [&] { return has_work() || core_.can_spill(); });
  }
}

void Engine::publish_stats() {
  const Scheduler& scheduler = core_.scheduler();
  const std::scoped_lock lock(mutex_);
  stats_.n_waiting = scheduler.n_waiting();
  stats_.n_running = scheduler.n_running();
  stats_.n_pages = scheduler.pool().n_all();
  stats_.n_free_pages = scheduler.pool().n_free();
  stats_.n_cached_pages = scheduler.pool().n_idle();
  stats_.n_steps = core_.n_steps();
  stats_.counts = scheduler.counts();
  stats_.seconds = core_.seconds();
  stats_.lone_decode = core_.lone_decode();
  stats_.experts = core_.expert_counts();
}

}  // namespace penstock
