// A scripted stand-in for Windows' memory calls: limits that bind, refusals on request.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "os/working_set.h"

namespace penstock {

// Locks as Windows does: no more than the minimum less its own overhead, and no more RAM than there
// is.
class FakeWorkingSet final : public WorkingSetCalls {
 public:
  static constexpr uint64_t kOverhead = 8 * 4 * kKiB;

  uint64_t ram_bytes = 64 * kMiB;  // a greater minimum is refused
  int fails_at = -1;               // the call of this number, counted from 0, is refused
  WorkingSetLimits now = {.minimum_bytes = 200 * kKiB, .maximum_bytes = 1400 * kKiB};
  CommitState commit = {.limit_bytes = 96 * kMiB, .available_bytes = 32 * kMiB};

  Result<WorkingSetLimits> limits() const override {
    if (is_refused()) return refusal("ask for the working set");
    return now;
  }
  Result<void> set_limits(const WorkingSetLimits& limits) override {
    if (is_refused()) return refusal("set the working set");
    if (limits.minimum_bytes > ram_bytes) return refusal("keep that much in RAM");
    if (limits.minimum_bytes >= limits.maximum_bytes) return refusal("set such limits");
    now = limits;
    return {};
  }
  Result<void> lock(std::span<std::byte> bytes) override {
    if (is_refused()) return refusal("lock");
    if (locked_bytes() + bytes.size() + kOverhead > now.minimum_bytes) {
      return refusal("lock beyond the minimum");
    }
    locked_[bytes.data()] = bytes.size();
    return {};
  }
  Result<void> unlock(std::span<std::byte> bytes) override {
    if (is_refused()) return refusal("unlock");
    return locked_.erase(bytes.data()) == 1 ? Result<void>{} : refusal("unlock what is not locked");
  }
  Result<CommitState> commit_state() const override { return commit; }

  uint64_t locked_bytes() const {
    uint64_t sum = 0;
    for (const auto& [address, bytes] : locked_) sum += bytes;
    return sum;
  }
  int n_calls() const { return n_calls_; }

 private:
  bool is_refused() const { return n_calls_++ == fails_at; }
  static std::unexpected<Error> refusal(std::string what) {
    return std::unexpected(Error{ErrorKind::kIo, "the fake refuses to " + what});
  }

  std::map<const std::byte*, uint64_t> locked_;
  mutable int n_calls_ = 0;
};

}  // namespace penstock
