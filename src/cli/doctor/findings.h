// What `penstock doctor` thinks of a machine: a row for each thing that decides how fast a model
// runs, and what would improve those that are weak. Pure: no machine is asked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/examination.h"

namespace penstock {

enum class Verdict : uint8_t { kGood, kWeak, kMissing };
std::string_view to_string(Verdict verdict);  // "good"

struct Finding {
  std::string row = {};    // "memory reads"
  std::string found = {};  // "14.5 GB/s by 1 thread, 29.5 by 2"
  Verdict verdict = Verdict::kGood;
  std::vector<std::string> advice = {};  // commands and settings, the first choice first
};

std::vector<Finding> findings_of(const Examination& examination);

// "pid 4711 python, started by pid 812 bash: 5.0 GiB of VRAM, 12.0 GiB of RAM; may hold pinned
// memory"
std::string describe(const GpuHolder& holder);

}  // namespace penstock
