// The worker pool of the CPU: threads pinned to the cores this process may use, which spin briefly
// and then park.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "tensor/rows.h"

namespace penstock {

struct PoolOptions {
  int n_threads =
      0;  // 0: as many as the affinity mask and the cgroup quota pay for; more than that is clamped
  bool pin = true;
};

// One thread at a time calls run() and parallel_for(): the caller is worker 0. Workers live as long
// as the pool.
class Pool {
 public:
  static Result<std::unique_ptr<Pool>> make(PoolOptions options = {});
  virtual ~Pool() = default;

  virtual int n_workers() const = 0;

  // Calls task(worker) once for each worker in [0, n_workers), and returns when all have returned.
  virtual void run(const std::function<void(int worker)>& task) = 0;

  // Splits [0, n_items) into chunks of at most `chunk` items that workers take as they come free.
  // body(range, worker) must not depend on how the items were split: results are bit-equal for any
  // thread count.
  void parallel_for(int64_t n_items, int64_t chunk,
                    const std::function<void(Range, int worker)>& body);
};

// Cores this process may use: affinity mask, cut to the cgroup's CPU quota (rounded up).
int allowed_cpus();

}  // namespace penstock
