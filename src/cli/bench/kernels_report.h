// What `penstock bench kernels` prints.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "kernels/bench/measurement.h"

namespace penstock {

// The measurements that share a pool and an isa, and what they are compared with.
struct KernelsRun {
  int n_threads = 0;
  Isa isa = Isa::kScalar;
  MachineRates machine = {};
  std::vector<KernelMeasurement> rows = {};
};

// Two tables: the limits, and the rows.
std::string kernels_table(const std::vector<KernelsRun>& runs, int columns);

// {"machine": {...}, "quick": ..., "limits": [...], "rows": [...]}; rates are per second.
Json kernels_json(const std::vector<KernelsRun>& runs, bool quick);

}  // namespace penstock
