// Machines, models and limits that nobody has, thrown by dice: for the plan's properties and its
// benchmark.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>

#include "base/units.h"
#include "memory/plan/plan.h"

namespace penstock {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  bool one_in(int n) { return below(n) == 0; }
  int below(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
  // Every order of magnitude as likely as any other.
  double spread(double least, double most) {
    return least * std::pow(most / least, std::uniform_real_distribution(0.0, 1.0)(random_));
  }
  uint64_t bytes(double least, double most) { return static_cast<uint64_t>(spread(least, most)); }
  std::optional<double> maybe(double rate) {
    return one_in(12) ? std::nullopt : std::optional(rate);
  }

 private:
  std::mt19937_64 random_;
};

inline BankDemand random_bank(Dice& dice) {
  if (dice.one_in(10)) return {.n_layers = 1 + dice.below(3)};
  BankDemand bank = {.n_layers = 1 + dice.below(dice.one_in(20) ? 130 : 40),
                     .n_experts = 2 + dice.below(300)};
  bank.top_k = 1 + dice.below(std::min(bank.n_experts, 12));
  bank.expert_bytes = dice.bytes(1e4, 5e7);
  bank.expert_params = dice.one_in(10) ? 0 : static_cast<int64_t>(2 * bank.expert_bytes);
  bank.format = dice.one_in(2) ? "nvfp4" : "q8_0";
  return bank;
}

inline ModelDemands random_model(Dice& dice) {
  ModelDemands demands;
  demands.name = "random";
  demands.context_length = 1 + dice.below(1 << 18);
  demands.dense_bytes = dice.bytes(1e6, 1e10);
  demands.dense_params = static_cast<int64_t>(demands.dense_bytes / 2);
  demands.dense_format = dice.one_in(2) ? "bf16" : "q8_0";
  demands.embed_bytes = dice.one_in(2) ? 0 : dice.bytes(1e5, 1e9);
  const int n_runs = 1 + dice.below(3);
  for (int i = 0; i < n_runs; ++i) demands.layers.push_back(random_bank(dice));
  demands.kv_bytes_a_token = dice.one_in(10) ? 0 : dice.bytes(100, 3e5);
  demands.sequence_bytes = dice.one_in(2) ? 0 : dice.bytes(100, 2e8);
  if (dice.one_in(4)) {
    demands.row_table_bytes = dice.bytes(1e6, 5e10);
    demands.rows_a_token = 1 + dice.below(32);
  }
  demands.workspace_bytes = dice.bytes(1e6, 1e9);
  demands.chunk_tokens = 1 << dice.below(14);
  return demands;
}

// VRAM is read no slower than RAM, and a GPU computes no slower than a CPU; the rest is anything.
inline Machine random_machine(Dice& dice) {
  Machine machine;
  machine.ram.total_bytes = dice.bytes(5e8, 1e12);
  machine.ram.available_bytes = machine.ram.total_bytes / static_cast<uint64_t>(1 + dice.below(3));
  if (dice.one_in(3)) machine.ram.memlock_bytes = dice.bytes(1e4, 5e11);
  if (dice.one_in(3)) machine.pin_quota_bytes = dice.bytes(1e6, 5e11);
  const double ram_rate = dice.spread(5, 400);
  const double cpu_arithmetic = dice.spread(0.05, 20);
  machine.ram.read_gb_s = dice.maybe(ram_rate);
  machine.cpu = {.n_cores = 4, .n_threads = 8, .prefill_tflop_s = dice.maybe(cpu_arithmetic)};
  for (const char* format : {"nvfp4", "q8_0"}) {
    if (!dice.one_in(12)) machine.cpu.expert_gb_s[format] = dice.spread(0.1, 1.2) * ram_rate;
  }
  machine.disk = {.sequential_gb_s = dice.maybe(dice.spread(0.1, 30)),
                  .random_gb_s = dice.maybe(dice.spread(0.05, 30)),
                  .small_reads_a_s = dice.maybe(dice.spread(100, 2e6))};
  const int n_gpus = dice.one_in(3) ? 0 : 1 + dice.below(2);
  for (int i = 0; i < n_gpus; ++i) {
    MachineGpu gpu;
    gpu.vram_total_bytes = dice.bytes(5e8, 3e11);
    gpu.vram_free_bytes = gpu.vram_total_bytes / 10 * 9;
    gpu.vram_gb_s = dice.maybe(ram_rate * dice.spread(1, 40));
    gpu.host_to_device_gb_s = dice.maybe(dice.spread(1, 100));
    gpu.zero_copy_gb_s = dice.maybe(dice.spread(1, 100));
    gpu.prefill_tflop_s = dice.maybe(cpu_arithmetic * dice.spread(1, 100));
    machine.gpus.push_back(gpu);
  }
  return machine;
}

inline Limits random_limits(Dice& dice, const ModelDemands& demands, const Machine& machine) {
  Limits limits;
  if (dice.one_in(8)) limits.pin_budget_bytes = dice.one_in(3) ? 0 : dice.bytes(1e6, 5e11);
  if (dice.one_in(8)) limits.kv_tokens = 1 + dice.below(100'000);
  if (dice.one_in(8)) limits.ram_reserve_bytes = dice.bytes(1e6, 1e10);
  if (dice.one_in(8)) limits.hit_rate = dice.spread(0.01, 1);
  if (dice.one_in(12)) limits.use_gpu = false;
  for (std::vector<int>* layers : {&limits.cpu_layers, &limits.pin_exempt_layers}) {
    for (int i = 0; dice.one_in(6) && i < demands.n_layers(); i += 1 + dice.below(6)) {
      layers->push_back(i);
    }
  }
  if (dice.one_in(8)) {
    limits.expert_slots = 1 + dice.below(static_cast<int>(demands.n_experts()) + 1);
  }
  if (!check_limits(demands, machine, limits)) return {};
  return limits;
}

}  // namespace penstock
