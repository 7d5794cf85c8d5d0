#include "kernels/bench/measurement.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

// Memory that was never written is one shared page of zeros, and reading it reads a cache.
std::span<std::byte> written(BenchArena& arena, BenchMemory memory) {
  const std::span<std::byte> bytes = arena.take(memory, arena.ring_bytes());
  constexpr size_t kOsPage = 4096;
  for (size_t at = 0; at < bytes.size(); at += kOsPage) bytes[at] = std::byte{1};
  return bytes;
}

}  // namespace

Summary summary(std::vector<double> samples) {
  PENSTOCK_CHECK(!samples.empty(), "a summary of nothing");
  std::ranges::sort(samples);
  const size_t middle = samples.size() / 2;
  const double median =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return {samples.front(), median, samples.back()};
}

Summary time_runs(const BenchEffort& effort, FunctionRef<double(int64_t n)> seconds_of) {
  constexpr double kMostAtOnce = 16;  // a first run may be much slower than the others
  int64_t n = 1;
  for (double taken; (taken = seconds_of(n)) < effort.sample_seconds;) {
    const double missing = taken > 0 ? 1.2 * effort.sample_seconds / taken : kMostAtOnce;
    n = static_cast<int64_t>(std::ceil(static_cast<double>(n) * std::min(missing, kMostAtOnce)));
  }
  std::vector<double> samples;
  samples.reserve(static_cast<size_t>(effort.n_samples));
  for (int i = 0; i < effort.n_samples; ++i) {
    samples.push_back(seconds_of(n) / static_cast<double>(n));
  }
  return summary(std::move(samples));
}

MachineRates measure_machine(Pool& pool, Isa isa, BenchArena& arena, const BenchEffort& effort) {
  MachineRates rates;
  for (const BenchMemory memory : {BenchMemory::kHugePages, BenchMemory::kSmallPages}) {
    double& rate = memory == BenchMemory::kHugePages ? rates.read_huge : rates.read_small;
    rate = read_rate(pool, isa, written(arena, memory), effort.n_samples);
  }
  for (const Arithmetic arithmetic : kAllArithmetic) {
    rates.of(arithmetic) =
        arithmetic_rate(pool, isa, arithmetic, effort.sample_seconds, effort.n_samples);
  }
  return rates;
}

MachineRates better_of(const MachineRates& a, const MachineRates& b) {
  MachineRates best = {std::max(a.read_huge, b.read_huge), std::max(a.read_small, b.read_small)};
  for (const Arithmetic arithmetic : kAllArithmetic) {
    best.of(arithmetic) = std::max(a.of(arithmetic), b.of(arithmetic));
  }
  return best;
}

std::optional<double> KernelMeasurement::share_of_read(const MachineRates& machine) const {
  if (bench.memory == BenchMemory::kCache) return std::nullopt;
  return bytes_a_second() / machine.read_huge;
}

std::optional<double> KernelMeasurement::share_of_arithmetic(const MachineRates& machine) const {
  const double limit = machine.of(bench.work.arithmetic);
  if (bench.work.operations == 0 || limit == 0) return std::nullopt;
  return operations_a_second() / limit;
}

KernelMeasurement measure(const KernelBench& bench, Pool& pool, BenchArena& arena,
                          const BenchEffort& effort) {
  const BenchRun run = bench.prepare(arena, pool);
  const auto seconds_of = [&](int64_t n) {
    const auto began = Clock::now();
    for (int64_t i = 0; i < n; ++i) run(pool);
    return std::chrono::duration<double>(Clock::now() - began).count();
  };
  return {bench, pool.n_workers(), time_runs(effort, seconds_of)};
}

}  // namespace penstock
