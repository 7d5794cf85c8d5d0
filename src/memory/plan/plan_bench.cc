// How long a plan takes, over machines and models of every size: the mean and the slowest.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "memory/plan/plan_dice_test.h"
#include "os/cpu_time.h"

namespace penstock {
namespace {

constexpr uint64_t kSeed = 20261130;
constexpr int kCases = 10'000;

void plan_random_cases(benchmark::State& state) {
  double slowest_ms = 0;
  double sum_ms = 0;
  for (auto _ : state) {
    Dice dice(kSeed);
    slowest_ms = sum_ms = 0;
    for (int i = 0; i < kCases; ++i) {
      const ModelDemands demands = random_model(dice);
      const Machine machine = random_machine(dice);
      const Limits limits = random_limits(dice, demands, machine);
      const double began = thread_cpu_seconds();
      const auto plan = make_plan(demands, machine, limits);
      const double took_ms = 1e3 * (thread_cpu_seconds() - began);
      PENSTOCK_CHECK(plan || plan.error().missing_bytes() > 0, "neither a plan nor a shortfall");
      slowest_ms = std::max(slowest_ms, took_ms);
      sum_ms += took_ms;
    }
  }
  state.counters["slowest_ms"] = slowest_ms;
  state.counters["mean_ms"] = sum_ms / kCases;
}
BENCHMARK(plan_random_cases)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock
