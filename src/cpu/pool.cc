#include "cpu/pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "os/cpu_limits.h"
#include "os/thread_name.h"

namespace penstock {
namespace {

// Longer than the gap between two operations of a decode step, shorter than anyone's patience: the
// price of parking and waking is a few microseconds, that of spinning is a core.
constexpr auto kSpinTime = std::chrono::microseconds(50);

// Waits until is_done() holds or the spin time is over; says whether it holds.
template <class Condition>
bool spin_until(Condition is_done) {
  constexpr int kPausesPerClock = 32;
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClock; ++i) {
      if (is_done()) return true;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return is_done();
}

std::string clamp_note(int wanted, int granted, const Topology& topology) {
  std::string why = fmt::format("the process may use {} CPUs", topology.cpus.size());
  if (std::isfinite(topology.quota)) {
    why += fmt::format(", and its cgroup pays for {:.2f}", topology.quota);
  }
  return fmt::format("{} CPU threads asked for, {} used: {}", wanted, granted, why);
}

}  // namespace

// Each run is an epoch: the caller writes the task, then raises epoch_; workers that see the new
// epoch run the task and count themselves out of n_busy_.
class Pool::Impl {
 public:
  explicit Impl(Placement placement)
      : placement_(std::move(placement)),
        n_workers_(std::max(static_cast<int>(placement_.cpus.size()), 1)) {}
  ~Impl();

  void start(const PoolOptions& options);
  void run(FunctionRef<void(int)> task);

  int n_workers() const { return n_workers_; }
  const Placement& placement() const { return placement_; }
  const std::string& note() const { return note_; }
  void add_note(const std::string& note);
  void count_waiting(std::chrono::nanoseconds* waited) { waited_ = waited; }

 private:
  void work(int worker);
  uint32_t wait_for_epoch_after(uint32_t seen) const;
  void raise_epoch();
  void wait_until_idle() const;
  void wait_and_count() const;

  const Placement placement_;
  const int n_workers_;
  std::string note_;
  std::vector<std::thread> threads_;
  std::chrono::nanoseconds* waited_ = nullptr;  // the caller's; null: nobody asks
  std::atomic<bool> is_running_ = false;        // guards against nested and concurrent runs: a bug

  const FunctionRef<void(int)>* task_ = nullptr;  // null in the last epoch: stop
  // Released by the caller after task_ and n_busy_ are written, acquired by workers before they
  // read them.
  alignas(64) std::atomic<uint32_t> epoch_ = 0;
  // Released by each worker after its task, acquired by the caller: what tasks wrote is visible
  // when run() returns.
  alignas(64) std::atomic<int> n_busy_ = 0;
};

void Pool::Impl::add_note(const std::string& note) {
  if (!note_.empty() && !note.empty()) note_ += "; ";
  note_ += note;
}

void Pool::Impl::start(const PoolOptions& options) {
  std::atomic<int> n_refused = 0;
  const auto pin = [&](int worker) {
    const auto place = static_cast<size_t>(worker);
    if (place >= placement_.cpus.size() || !pin_this_thread(placement_.cpus[place])) ++n_refused;
  };
  if (options.pin_caller) pin(0);
  threads_.reserve(static_cast<size_t>(n_workers_) - 1);
  for (int worker = 1; worker < n_workers_; ++worker) {
    threads_.emplace_back([this, worker] {
      name_this_thread(fmt::format("worker {}", worker));
      work(worker);
    });
  }
  if (options.pin) {
    run([&](int worker) {
      if (worker > 0) pin(worker);
    });
  }
  if (n_refused > 0) {
    add_note(fmt::format("{} of {} CPU threads could not be pinned", n_refused.load(), n_workers_));
  }
}

Pool::Impl::~Impl() {
  task_ = nullptr;
  raise_epoch();
  for (std::thread& thread : threads_) thread.join();
}

void Pool::Impl::run(FunctionRef<void(int)> task) {
  PENSTOCK_CHECK(!is_running_.exchange(true, std::memory_order_acquire),
                 "a pool runs one task at a time");
  if (threads_.empty()) {
    task(0);
  } else {
    task_ = &task;
    n_busy_.store(n_workers_ - 1, std::memory_order_relaxed);  // published by the epoch
    raise_epoch();
    task(0);
    waited_ == nullptr ? wait_until_idle() : wait_and_count();
  }
  is_running_.store(false, std::memory_order_release);
}

// No wakeup is lost: a worker parks only while epoch_ still has the value it has seen, which the
// kernel checks under its own lock, and the notification follows the store.
void Pool::Impl::raise_epoch() {
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
}

uint32_t Pool::Impl::wait_for_epoch_after(uint32_t seen) const {
  const auto has_changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (!spin_until(has_changed)) epoch_.wait(seen, std::memory_order_acquire);
  return epoch_.load(std::memory_order_acquire);
}

void Pool::Impl::wait_until_idle() const {
  const auto is_idle = [&] { return n_busy_.load(std::memory_order_acquire) == 0; };
  if (spin_until(is_idle)) return;
  while (const int n_busy = n_busy_.load(std::memory_order_acquire)) {
    n_busy_.wait(n_busy, std::memory_order_acquire);
  }
}

void Pool::Impl::wait_and_count() const {
  const auto began = std::chrono::steady_clock::now();
  wait_until_idle();
  *waited_ += std::chrono::steady_clock::now() - began;
}

void Pool::Impl::work(int worker) {
  uint32_t seen = 0;
  for (;;) {
    // Epochs cannot be skipped: the next is raised only after this worker has counted itself out.
    seen = wait_for_epoch_after(seen);
    if (task_ == nullptr) return;
    (*task_)(worker);
    // seq_cst: pairs with the caller's check whether it is parked.
    if (n_busy_.fetch_sub(1, std::memory_order_seq_cst) == 1) n_busy_.notify_one();
  }
}

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() = default;

Result<std::unique_ptr<Pool>> Pool::make(PoolOptions options) {
  if (options.n_threads < 0) {
    return fail(ErrorKind::kInvalidArgument, "a pool of {} CPU threads", options.n_threads);
  }
  const Topology topology = options.topology ? *options.topology : usable_topology();
  auto impl = std::make_unique<Impl>(place_workers(topology, options.n_threads));
  impl->add_note(topology.note);
  const int n_workers = impl->n_workers();
  if (options.n_threads > n_workers) {
    impl->add_note(clamp_note(options.n_threads, n_workers, topology));
  }
  try {
    impl->start(options);
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kExhausted, "cannot start {} CPU threads: {}", n_workers, error.what());
  }
  return std::unique_ptr<Pool>(new Pool(std::move(impl)));
}

int Pool::n_workers() const { return impl_->n_workers(); }
const Placement& Pool::placement() const { return impl_->placement(); }
const std::string& Pool::note() const { return impl_->note(); }
void Pool::count_waiting(std::chrono::nanoseconds* waited) { impl_->count_waiting(waited); }
void Pool::run(FunctionRef<void(int)> task) { impl_->run(task); }

void Pool::parallel_for(int64_t n_items, int64_t chunk, FunctionRef<void(Range, int)> body) {
  PENSTOCK_CHECK(chunk > 0, "chunks hold at least one item");
  if (n_items <= chunk) {  // one chunk is not worth waking anyone
    if (n_items > 0) body({0, n_items}, 0);
    return;
  }
  std::atomic<int64_t> next = 0;  // relaxed: run() orders what the chunks write
  run([&](int worker) {
    for (;;) {
      const int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= n_items) return;
      body({begin, std::min(begin + chunk, n_items)}, worker);
    }
  });
}

}  // namespace penstock
