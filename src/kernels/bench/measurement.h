// Times a run of an operation, and sets its rates beside the machine's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "kernels/bench/kernel_bench.h"
#include "kernels/machine_limits/machine_limits.h"

namespace penstock {

// How long a measurement takes.
struct BenchEffort {
  int n_samples = 5;
  double sample_seconds = 0.02;  // at least: a sample is as many runs as this takes
};

struct Summary {
  double least = 0, median = 0, most = 0;
};

// The seconds of one run, over the samples. seconds_of(n) runs n times and says how long that took.
// How many make a sample is found out first, by runs that do not count.
Summary time_runs(const BenchEffort& effort, FunctionRef<double(int64_t n)> seconds_of);
// Of at least one sample; in any order.
Summary summary(std::vector<double> samples);

// This machine's limits for one isa and number of threads.
struct MachineRates {
  double read_huge = 0, read_small = 0;                           // bytes a second, by OS page
  std::array<double, std::size(kAllArithmetic)> operations = {};  // a second, by Arithmetic

  double& of(Arithmetic arithmetic) { return operations[static_cast<size_t>(arithmetic)]; }
  double of(Arithmetic arithmetic) const { return operations[static_cast<size_t>(arithmetic)]; }
};

// Reads the arena's ring_bytes through both kinds of pages, and runs all the loops.
MachineRates measure_machine(Pool& pool, Isa isa, BenchArena& arena, const BenchEffort& effort);
// Of each rate the higher: what the machine did once, it can do.
MachineRates better_of(const MachineRates& a, const MachineRates& b);

struct KernelMeasurement {
  KernelBench bench = {};
  int n_threads = 0;
  Summary seconds = {};

  double bytes_a_second() const { return bench.work.bytes / seconds.median; }
  double operations_a_second() const { return bench.work.operations / seconds.median; }
  // Of the machine's read rate through huge pages; none for what is read from a cache.
  std::optional<double> share_of_read(const MachineRates& machine) const;
  // Of the rate of its units; none where operations are not counted or the isa has no such units.
  std::optional<double> share_of_arithmetic(const MachineRates& machine) const;
};

KernelMeasurement measure(const KernelBench& bench, Pool& pool, BenchArena& arena,
                          const BenchEffort& effort);

}  // namespace penstock
