// Windows' own working set, locks and commit charge.
#pragma once

#include "os/working_set.h"

namespace penstock {

class WindowsWorkingSetCalls final : public WorkingSetCalls {
 public:
  Result<WorkingSetLimits> limits() const override;
  Result<void> set_limits(const WorkingSetLimits& limits) override;
  Result<void> lock(std::span<std::byte> bytes) override;
  Result<void> unlock(std::span<std::byte> bytes) override;
  Result<CommitState> commit_state() const override;
};

}  // namespace penstock
