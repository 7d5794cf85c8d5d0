// The small operations of a layer, by isa: numbers a second, at a hidden size of 4096 and 128
// experts. Their answers are checked by the tests beside them.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "cpu/isa.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/router/router.h"
#include "kernels/swiglu/swiglu.h"

namespace penstock {
namespace {

constexpr int64_t kDim = 4096;

std::vector<float> random_floats(int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<size_t>(n));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

void run_rms_norm(benchmark::State& state, Isa isa) {
  const auto x = random_floats(kDim);
  std::vector<float> y(x.size());
  for (auto _ : state) {
    rms_norm_exact(isa, dense_rows(x.data(), 1, kDim), x, 1e-6F, dense_rows(y.data(), 1, kDim));
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(state.iterations() * kDim);
}

void run_swiglu(benchmark::State& state, Isa isa) {
  const auto x = random_floats(kDim);
  std::vector<float> y(x.size());
  for (auto _ : state) {
    swiglu_exact(isa, dense_rows(x.data(), 1, kDim), dense_rows(x.data(), 1, kDim),
                 dense_rows(y.data(), 1, kDim));
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(state.iterations() * kDim);
}

void rope_rotate_halves(benchmark::State& state) {
  const auto cos = random_floats(64);
  auto heads = random_floats(kDim);
  for (auto _ : state) {
    rope_rotate(RopePairs::kHalves, cos, cos, dense_rows(heads.data(), kDim / 128, 128));
    benchmark::DoNotOptimize(heads.data());
  }
  state.SetItemsProcessed(state.iterations() * kDim);
}
BENCHMARK(rope_rotate_halves);

void route_128_experts(benchmark::State& state) {
  const auto logits = random_floats(128);
  std::vector<ExpertChoice> chosen(8);
  for (auto _ : state) {
    route({}, logits, {}, chosen);
    benchmark::DoNotOptimize(chosen.data());
  }
  state.SetItemsProcessed(state.iterations() * 128);
}
BENCHMARK(route_128_experts);

const bool kRegistered = [] {
  for (const Isa isa : supported_isas()) {
    const std::string name(to_string(isa));
    benchmark::RegisterBenchmark(("rms_norm/" + name).c_str(), run_rms_norm, isa);
    benchmark::RegisterBenchmark(("swiglu/" + name).c_str(), run_swiglu, isa);
  }
  return true;
}();

}  // namespace
}  // namespace penstock
