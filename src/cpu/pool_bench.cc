// What it costs to hand every worker a task, by how long the workers had nothing to do before:
// while they still spin, and after they have parked.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "cpu/pool.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

void run_after_pause(benchmark::State& state) {
  static const Topology topology = usable_topology();  // before a pool pins this thread
  const auto pool = Pool::make({.pin_caller = true, .topology = topology}).value();
  const auto pause = std::chrono::microseconds(state.range(0));
  std::vector<double> us;
  for (auto _ : state) {
    // Busy, as the caller is between two operations: asleep, it would have to be woken itself.
    for (const auto until = Clock::now() + pause; Clock::now() < until;) {
    }
    const auto began = Clock::now();
    pool->run([](int) {});
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
    state.SetIterationTime(us.back() * 1e-6);
  }
  std::ranges::sort(us);  // a mean would show what else the machine does
  state.counters["p10_us"] = us[us.size() / 10];
  state.counters["p50_us"] = us[us.size() / 2];
}
BENCHMARK(run_after_pause)
    ->ArgName("us")
    ->Arg(0)
    ->Arg(5)
    ->Arg(10)
    ->Arg(20)
    ->Arg(50)
    ->Arg(100)
    ->Arg(1000)
    ->Iterations(1000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace penstock
