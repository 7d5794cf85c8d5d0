#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "os/read_backend.h"
#include "os/thread_name.h"
#include "os/thread_reads.h"

namespace penstock {
namespace {

// Each thread is one read in flight; a disk has work enough with this many of 1 MiB.
constexpr size_t kMaxThreads = 16;

class ThreadBackend final : public ReadBackend {
 public:
  ThreadBackend() = default;
  ThreadBackend(const ThreadBackend&) = delete;
  ThreadBackend& operator=(const ThreadBackend&) = delete;
  ~ThreadBackend() override {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    has_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void add_thread() {
    threads_.emplace_back([this] { work(); });
  }

  std::string_view name() const override { return "threads"; }
  size_t depth() const override { return threads_.size(); }

  void start(std::span<const PieceRead> reads) override {
    {
      const std::scoped_lock lock(mutex_);
      waiting_.insert(waiting_.end(), reads.begin(), reads.end());
    }
    has_work_.notify_all();
  }

  void collect(bool wait, std::vector<PieceResult>& results) override {
    std::unique_lock lock(mutex_);
    if (wait) has_results_.wait(lock, [&] { return !results_.empty(); });
    results.insert(results.end(), results_.begin(), results_.end());
    results_.clear();
  }

 private:
  void work() {
    take_no_signals();
    name_this_thread("disk");

    std::unique_lock lock(mutex_);
    for (;;) {
      has_work_.wait(lock, [&] { return is_over_ || !waiting_.empty(); });
      if (is_over_) return;
      const PieceRead read = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const int64_t result = read_some(*read.file, read.offset, read.out);
      lock.lock();
      results_.push_back({.id = read.id, .result = result});
      has_results_.notify_one();
    }
  }

  std::mutex mutex_;  // guards what follows, but for the threads themselves
  std::condition_variable has_work_;
  std::condition_variable has_results_;
  std::deque<PieceRead> waiting_;
  std::vector<PieceResult> results_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<ReadBackend>> make_thread_backend(size_t depth) {
  auto backend = std::make_unique<ThreadBackend>();
  const size_t n_threads = std::min(depth, kMaxThreads);
  try {
    while (backend->depth() < n_threads) backend->add_thread();
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kExhausted, "cannot start {} threads that read from disk: {}", n_threads,
                error.what());
  }
  return backend;
}

}  // namespace penstock
