// How fast this machine's RAM is read, and what the decode kernels reach on weights that lie there.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "cpu/isa.h"

namespace penstock {

struct CpuEffort {
  size_t ring_bytes = 0;  // of weights that are visited in turn: more than the caches hold
  int n_samples = 5;
  double sample_seconds = 0.02;
  bool all_formats = true;      // or those that models come in most
  double experts_seconds = 12;  // after which formats that are left stay unknown, rare ones last
};

// Of RAM that is to be had now a quarter at most; kExhausted where that is little more than the
// caches hold, and would measure them.
Result<CpuEffort> cpu_effort(bool is_quick, uint64_t available_bytes, uint64_t cache_bytes);

struct CpuMeasurement {
  Isa isa = Isa::kScalar;
  int n_threads = 0;
  std::map<int, double> read_gb_s = {};  // by threads: 1, 2, 4, ... and all
  double rested_read_gb_s = 0;           // of all, a second after the last read
  std::map<std::string, double> expert_gb_s = {};
  double attention_gb_s = 0;  // of keys and values, by one generated token
  double prefill_tflop_s = 0;
};

// Progress counts measurements. Pins the calling thread to one CPU, for good.
Result<CpuMeasurement> measure_cpu(const CpuEffort& effort, const ProgressFn& progress);

}  // namespace penstock
