// How Windows keeps memory in RAM: a process may lock as much as the minimum of its working set,
// less what it needs itself, and grows that minimum first. The calls are behind an interface, for
// they mean this on Windows alone: Wine locks everything and changes no limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/result.h"

namespace penstock {

// Bytes of RAM that a process keeps: never less than the minimum while it runs, and when memory is
// short no more than the maximum.
struct WorkingSetLimits {
  uint64_t minimum_bytes = 0;
  uint64_t maximum_bytes = 0;

  bool operator==(const WorkingSetLimits&) const = default;
};

// What of RAM and page file together is promised to all processes (the commit charge).
struct CommitState {
  uint64_t limit_bytes = 0;
  uint64_t available_bytes = 0;

  bool operator==(const CommitState&) const = default;
};

// The system's calls. Thread-safe.
class WorkingSetCalls {
 public:
  virtual ~WorkingSetCalls() = default;

  virtual Result<WorkingSetLimits> limits() const = 0;
  virtual Result<void> set_limits(const WorkingSetLimits& limits) = 0;
  virtual Result<void> lock(std::span<std::byte> bytes) = 0;
  virtual Result<void> unlock(std::span<std::byte> bytes) = 0;
  virtual Result<CommitState> commit_state() const = 0;
};

// A process's locked memory and the limits that grow and shrink with it. One for each process,
// whose working set it is. Thread-safe.
class WorkingSet {
 public:
  explicit WorkingSet(WorkingSetCalls& calls) : calls_(calls) {}
  WorkingSet(const WorkingSet&) = delete;
  WorkingSet& operator=(const WorkingSet&) = delete;

  // On failure nothing of `bytes` is locked, and the limits are as they were.
  Result<void> lock(std::span<std::byte> bytes);
  // Of what lock() locked, whole.
  void unlock(std::span<std::byte> bytes);

  uint64_t locked_bytes() const;

 private:
  Result<void> grow(uint64_t bytes);
  void shrink(uint64_t bytes);

  WorkingSetCalls& calls_;
  mutable std::mutex mutex_;  // guards the limits, which are read, then set; and the sum
  uint64_t locked_bytes_ = 0;
};

// What an allocation that the system refused is told: how much was wanted, against what it may
// still promise.
Error commit_refused(uint64_t wanted_bytes, const Result<CommitState>& state);

}  // namespace penstock
