// An examination's findings as `penstock doctor` prints them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/doctor/findings.h"

namespace penstock {

// A row for each finding and, below those that are weak, what improves them. No line is longer than
// `columns`, as far as that is not fewer than 60, and no word longer than a line.
std::string doctor_text(const std::vector<Finding>& findings, int columns);

// saved_to: empty where the profile was not kept.
OrderedJson doctor_json(const Examination& examination, const std::vector<Finding>& findings,
                        const std::filesystem::path& saved_to);

}  // namespace penstock
