// What `penstock bench MODEL --breakdown` says of a profile: the average step by operation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/profile.h"

namespace penstock {

// One line of the average step.
struct BreakdownLine {
  std::string_view operation = {};
  double seconds = 0;
  double share = 0;            // of the step
  double waiting_seconds = 0;  // of its seconds, for other workers
  OperationWork work = {};

  double bytes_a_second() const { return seconds > 0 ? work.bytes / seconds : 0; }
  double operations_a_second() const { return seconds > 0 ? work.operations / seconds : 0; }
};

// The operations that were called, in a step's order, then "other": what is left of the step. Their
// seconds sum to whole_step's. At least one step.
std::vector<BreakdownLine> breakdown_lines(const Profile& profile);
BreakdownLine whole_step(const Profile& profile);

std::string breakdown_table(std::string_view kind, const Profile& profile, int columns);

// {"steps": n, "seconds": ..., "waiting_seconds": ..., "bytes": ..., "operations": ...,
//  "by_operation": [{"operation": ..., "seconds": ..., "share": ..., ...}, ...]}, of one step.
Json breakdown_json(const Profile& profile);

}  // namespace penstock
