#include "cpu/pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/integers.h"
#include "os/cpu_limits.h"
#include "os/thread_name.h"

namespace penstock {
namespace {

// Handing a task to a worker that spins and having it back takes 0.5 us at the median, to one that
// has parked 50 to 90 us: its CPU has gone idle, and it takes an interrupt to have it back
// (Sapphire Rapids, 2 cores of a virtual machine; pool_bench.cc). Spinning for as long as a wake-up
// takes costs at most twice what one would pay who knew beforehand how long there will be nothing
// to do. SmolLM2 on that machine, 2 threads, best of three runs: 96 tok/s without spinning, 235
// with 20 us, 245 with 50, 260 with 100, 270 with 200.
constexpr auto kSpinTime = std::chrono::microseconds(100);

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

// Chunks [begin, end) that are left of a worker's share. Alone in its cache line, for the sake of
// its owner, who takes nearly all of them.
class alignas(64) Share {
 public:
  // Relaxed, all of it: run() orders what the chunks write, and these here before it.
  void set(Range chunks) { left_.store(packed(chunks), std::memory_order_relaxed); }
  // A chunk; nothing when none is left.
  std::optional<int64_t> take_first() {
    return take([](Range left) { return std::pair(left.begin, Range{left.begin + 1, left.end}); });
  }
  std::optional<int64_t> take_last() {
    return take(
        [](Range left) { return std::pair(left.end - 1, Range{left.begin, left.end - 1}); });
  }

 private:
  static uint64_t packed(Range chunks) {
    return static_cast<uint64_t>(chunks.begin) << 32 | static_cast<uint64_t>(chunks.end);
  }
  static Range unpacked(uint64_t left) {
    return {static_cast<int64_t>(left >> 32), static_cast<int64_t>(left & UINT32_MAX)};
  }

  template <class Split>
  std::optional<int64_t> take(Split split) {
    uint64_t left = left_.load(std::memory_order_relaxed);
    for (;;) {
      const Range chunks = unpacked(left);
      if (chunks.size() == 0) return std::nullopt;
      const auto [taken, rest] = split(chunks);
      if (left_.compare_exchange_weak(left, packed(rest), std::memory_order_relaxed)) return taken;
    }
  }

  std::atomic<uint64_t> left_ = 0;
};

}  // namespace

// Each run is an epoch. The caller writes what is to be done, opens the gate, and raises epoch_;
// workers that see the new epoch go in, work and come out. Where work is taken in chunks, the
// caller closes the gate when no chunk is left and waits for those inside only: a worker whose CPU
// is busy with somebody else's program then misses the run, instead of holding it up.
class Pool::Impl {
 public:
  explicit Impl(Placement placement)
      : placement_(std::move(placement)),
        n_workers_(std::max(static_cast<int>(placement_.cpus.size()), 1)) {}
  ~Impl();

  enum class Attendance : uint8_t {
    kAll,      // the run is over when each worker has done the task
    kWhoComes  // it is over when those who came while the caller did the task are done too
  };

  void start(const PoolOptions& options);
  void run(Attendance attendance, FunctionRef<void(int)> task);

  int n_workers() const { return n_workers_; }
  const Placement& placement() const { return placement_; }
  const std::string& note() const { return note_; }
  void add_note(const std::string& note);
  void count_waiting(std::chrono::nanoseconds* waited) { waited_ = waited; }
  std::span<Share> shares() { return shares_; }

 private:
  void work(int worker);
  uint32_t wait_for_epoch_after(uint32_t seen) const;
  bool enter();
  void leave();
  void raise_epoch();
  void wait_until_empty() const;
  void wait_and_count() const;

  static constexpr uint32_t kClosed = uint32_t{1} << 31;  // beside a count of workers

  const Placement placement_;
  const int n_workers_;
  std::string note_;
  std::vector<Share> shares_ = std::vector<Share>(static_cast<size_t>(n_workers_));
  std::vector<std::thread> threads_;
  std::chrono::nanoseconds* waited_ = nullptr;  // the caller's; null: nobody asks
  std::atomic<bool> is_running_ = false;        // guards against nested and concurrent runs: a bug

  // Written while the gate is closed and nobody is inside, read inside.
  const FunctionRef<void(int)>* task_ = nullptr;  // null in the last run: stop
  Attendance attendance_ = Attendance::kAll;
  uint32_t run_ = 0;  // what epoch_ is about to be, or is

  // Only a signal to look at the gate: it orders nothing else.
  alignas(64) std::atomic<uint32_t> epoch_ = 0;
  // How many workers the caller has to wait for, and kClosed. Opening it releases the fields above,
  // entering acquires them; leaving releases what the task wrote, which the caller acquires.
  alignas(64) std::atomic<uint32_t> gate_ = kClosed;
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
    run(Attendance::kAll, [&](int worker) {
      if (worker > 0) pin(worker);
    });
  }
  if (n_refused > 0) {
    add_note(fmt::format("{} of {} CPU threads could not be pinned", n_refused.load(), n_workers_));
  }
}

Pool::Impl::~Impl() {
  task_ = nullptr;
  attendance_ = Attendance::kWhoComes;
  ++run_;
  gate_.store(0, std::memory_order_release);
  raise_epoch();
  for (std::thread& thread : threads_) thread.join();
}

void Pool::Impl::run(Attendance attendance, FunctionRef<void(int)> task) {
  PENSTOCK_CHECK(!is_running_.exchange(true, std::memory_order_acquire),
                 "a pool runs one task at a time");
  if (threads_.empty()) {
    task(0);
  } else {
    const bool is_for_all = attendance == Attendance::kAll;
    task_ = &task;
    attendance_ = attendance;
    ++run_;
    gate_.store(is_for_all ? static_cast<uint32_t>(n_workers_ - 1) : 0, std::memory_order_release);
    raise_epoch();
    task(0);
    if (!is_for_all) gate_.fetch_or(kClosed, std::memory_order_acq_rel);
    waited_ == nullptr ? wait_until_empty() : wait_and_count();
    if (is_for_all) gate_.store(kClosed, std::memory_order_relaxed);  // nobody is left to enter
  }
  is_running_.store(false, std::memory_order_release);
}

// No wakeup is lost: a worker parks only while epoch_ still has the value it has seen, which the
// kernel checks under its own lock, and the notification follows the store.
void Pool::Impl::raise_epoch() {
  epoch_.store(run_, std::memory_order_seq_cst);
  epoch_.notify_all();
}

uint32_t Pool::Impl::wait_for_epoch_after(uint32_t seen) const {
  // Not "different": a worker may be inside the next run before its epoch is raised.
  const auto is_later = [&](uint32_t epoch) { return static_cast<int32_t>(epoch - seen) > 0; };
  spin_until([&] { return is_later(epoch_.load(std::memory_order_acquire)); });
  for (;;) {
    const uint32_t epoch = epoch_.load(std::memory_order_acquire);
    if (is_later(epoch)) return epoch;
    epoch_.wait(epoch, std::memory_order_acquire);
  }
}

// False when the run is over already.
bool Pool::Impl::enter() {
  uint32_t gate = gate_.load(std::memory_order_relaxed);
  while ((gate & kClosed) == 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

void Pool::Impl::leave() {
  // In a run for all each worker has been counted from the beginning, besides.
  const uint32_t counted = attendance_ == Attendance::kAll ? 2 : 1;
  // seq_cst: pairs with the caller's check whether it is parked.
  const uint32_t before = gate_.fetch_sub(counted, std::memory_order_seq_cst);
  if ((before & ~kClosed) == counted) gate_.notify_one();
}

void Pool::Impl::wait_until_empty() const {
  const auto is_empty = [](uint32_t gate) { return (gate & ~kClosed) == 0; };
  if (spin_until([&] { return is_empty(gate_.load(std::memory_order_acquire)); })) return;
  for (;;) {
    const uint32_t gate = gate_.load(std::memory_order_acquire);
    if (is_empty(gate)) return;
    gate_.wait(gate, std::memory_order_acquire);
  }
}

void Pool::Impl::wait_and_count() const {
  const auto began = std::chrono::steady_clock::now();
  wait_until_empty();
  *waited_ += std::chrono::steady_clock::now() - began;
}

void Pool::Impl::work(int worker) {
  uint32_t seen = 0;
  for (;;) {
    seen = wait_for_epoch_after(seen);
    if (!enter()) continue;
    seen = run_;  // perhaps one later than the epoch that called
    const bool is_last = task_ == nullptr;
    if (!is_last) (*task_)(worker);
    leave();
    if (is_last) return;
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
void Pool::run(FunctionRef<void(int)> task) { impl_->run(Impl::Attendance::kAll, task); }

void Pool::parallel_for(int64_t n_items, int64_t chunk, FunctionRef<void(Range, int)> body) {
  PENSTOCK_CHECK(chunk > 0, "chunks hold at least one item");
  if (n_items <= chunk) {  // one chunk is not worth waking anyone
    if (n_items > 0) body({0, n_items}, 0);
    return;
  }
  std::atomic<int64_t> next = 0;  // relaxed: run() orders what the chunks write
  impl_->run(Impl::Attendance::kWhoComes, [&](int worker) {
    for (;;) {
      const int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= n_items) return;
      body({begin, std::min(begin + chunk, n_items)}, worker);
    }
  });
}

void Pool::parallel_for_shares(int64_t n_items, int64_t chunk, FunctionRef<void(Range, int)> body) {
  PENSTOCK_CHECK(chunk > 0, "chunks hold at least one item");
  const int64_t n_chunks = ceil_div(n_items, chunk);
  PENSTOCK_CHECK(n_chunks <= UINT32_MAX, "more chunks than a share counts");
  if (n_chunks <= 1) {  // not worth waking anyone
    if (n_items > 0) body({0, n_items}, 0);
    return;
  }
  const std::span<Share> shares = impl_->shares();
  const int64_t n_workers = std::ssize(shares);
  for (int64_t w = 0; w < n_workers; ++w) {
    shares[static_cast<size_t>(w)].set({n_chunks * w / n_workers, n_chunks * (w + 1) / n_workers});
  }
  impl_->run(Impl::Attendance::kWhoComes, [&](int worker) {
    const auto run_chunk = [&](int64_t c) {
      body({c * chunk, std::min((c + 1) * chunk, n_items)}, worker);
    };
    Share& own = shares[static_cast<size_t>(worker)];
    while (const auto c = own.take_first()) run_chunk(*c);
    // Shares only shrink: one that was empty once needs no second look.
    for (int64_t i = 1; i < n_workers; ++i) {
      Share& other = shares[static_cast<size_t>((worker + i) % n_workers)];
      while (const auto c = other.take_last()) run_chunk(*c);
    }
  });
}

}  // namespace penstock
