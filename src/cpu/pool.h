// The worker pool of the CPU: threads pinned to the cores this process may use, which spin for 100
// us when there is nothing to do, about as long as it takes to wake one (pool.cc has the numbers),
// and then park.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/function_ref.h"
#include "base/result.h"
#include "cpu/placement.h"
#include "cpu/topology.h"
#include "tensor/rows.h"

namespace penstock {

struct PoolOptions {
  int n_threads = 0;        // as place_workers has it: 0 is one for each core that is paid for
  bool pin = true;          // workers 1 and up stay each on a CPU of its own
  bool pin_caller = false;  // and so does the thread that calls make(), for good
  std::optional<Topology> topology = {};  // empty: what this process may use of the machine
};

// One thread at a time calls run() and parallel_for(): the caller is worker 0. Workers live as long
// as the pool. Tasks do not throw, and do not call their own pool.
class Pool {
 public:
  // Fails on a negative n_threads, or when the system refuses a thread.
  static Result<std::unique_ptr<Pool>> make(PoolOptions options = {});
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int n_workers() const;
  const Placement& placement() const;
  // What was not done as asked (threads clamped, pinning refused), for the caller's log; or empty.
  const std::string& note() const;

  // From now on adds to *waited what the caller waits for other workers at the end of each run;
  // null: no longer.
  void count_waiting(std::chrono::nanoseconds* waited);

  // Calls task(worker) once for each worker in [0, n_workers), and returns when all have returned.
  void run(FunctionRef<void(int worker)> task);

  // Splits [0, n_items) into chunks of at most `chunk` items that workers take as they come free,
  // whatever their speed. Returns when all are done; a worker that never came, because its CPU is
  // busy with another program, is not waited for.
  // body(range, worker) must not depend on how the items were split: results are bit-equal for any
  // thread count.
  void parallel_for(int64_t n_items, int64_t chunk, FunctionRef<void(Range, int worker)> body);

  // The same, but each worker begins with neighbouring items of its own, in ascending order and the
  // same ones for the same n_items, and then takes the last of others' that are left. For items
  // that lie in memory one behind the other: what a kernel asks for ahead is then its own worker's
  // to come.
  void parallel_for_shares(int64_t n_items, int64_t chunk,
                           FunctionRef<void(Range, int worker)> body);

 private:
  class Impl;
  explicit Pool(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
