// What `penstock plan --replay` says: how often recorded routing finds its experts in their slots,
// by policy and number of slots.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "memory/routing/replay.h"
#include "memory/routing/routing_record.h"

namespace penstock {

struct ReplayRow {
  int64_t n_slots = 0;
  std::array<ReplayResult, kReplayPolicies.size()> results = {};  // in kReplayPolicies' order
};

// One for each of the usual shares of the experts, or for what --expert-slots says.
Result<std::vector<ReplayRow>> replay_rows(const RoutingRecord& record,
                                           std::string_view expert_slots);

std::string replay_text(const RoutingRecord& record, const std::vector<ReplayRow>& rows,
                        int columns);
OrderedJson replay_json(const RoutingRecord& record, const std::vector<ReplayRow>& rows);

}  // namespace penstock
