// Ten thousand machines and models that nobody has: no plan exceeds a budget, more of anything is
// never worse, and a plan takes milliseconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "base/units.h"
#include "memory/plan/plan.h"
#include "memory/plan/plan_cases_test.h"
#include "os/cpu_time.h"

namespace penstock {
namespace {

constexpr uint64_t kSeed = 20261130;
constexpr int kCases = 10'000;
constexpr double kMostMilliseconds = 10;
// Layouts that differ by less than 1e-9 of a turn are taken for equal, a chain of them for less
// than this.
constexpr double kRounding = 1e-6;
constexpr const char* kMoreRam = "more RAM";
constexpr const char* kMoreVram = "more VRAM";

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

BankDemand random_bank(Dice& dice) {
  if (dice.one_in(10)) return {.n_layers = 1 + dice.below(3)};
  BankDemand bank = {.n_layers = 1 + dice.below(dice.one_in(20) ? 130 : 40),
                     .n_experts = 2 + dice.below(300)};
  bank.top_k = 1 + dice.below(std::min(bank.n_experts, 12));
  bank.expert_bytes = dice.bytes(1e4, 5e7);
  bank.expert_params = dice.one_in(10) ? 0 : static_cast<int64_t>(2 * bank.expert_bytes);
  bank.format = dice.one_in(2) ? "nvfp4" : "q8_0";
  return bank;
}

ModelDemands random_model(Dice& dice) {
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
Machine random_machine(Dice& dice) {
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

Limits random_limits(Dice& dice, const ModelDemands& demands, const Machine& machine) {
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

// One thing more of what a machine has, or quicker.
std::string enrich(Dice& dice, Machine& machine) {
  const double factor = dice.one_in(2) ? 1 + 1e-6 * dice.below(1000) : dice.spread(1, 4);
  const auto grow = [&](uint64_t& bytes) {
    bytes +=
        std::max<uint64_t>(1, static_cast<uint64_t>((factor - 1) * static_cast<double>(bytes)));
  };
  const auto speed_up = [&](std::optional<double>& rate) {
    if (rate) *rate *= factor;
  };
  const int n_choices = machine.gpus.empty() ? 6 : 10;
  MachineGpu* gpu =
      machine.gpus.empty()
          ? nullptr
          : &machine.gpus[static_cast<size_t>(dice.below(static_cast<int>(machine.gpus.size())))];
  switch (dice.below(n_choices)) {
    case 0:
    case 1:
      grow(machine.ram.available_bytes);
      machine.ram.total_bytes = std::max(machine.ram.total_bytes, machine.ram.available_bytes);
      return kMoreRam;
    case 2:
      if (machine.ram.memlock_bytes) grow(*machine.ram.memlock_bytes);
      if (machine.pin_quota_bytes) grow(*machine.pin_quota_bytes);
      return "more pins";
    case 3:
      speed_up(machine.disk.random_gb_s);
      return "a disk with quicker random reads";
    case 4:
      speed_up(machine.disk.sequential_gb_s);
      speed_up(machine.disk.small_reads_a_s);
      return "a quicker disk";
    case 5:
      for (auto& [format, rate] : machine.cpu.expert_gb_s) rate *= factor;
      return "quicker CPU kernels";
    case 6:
    case 7:
      grow(gpu->vram_free_bytes);
      gpu->vram_total_bytes = std::max(gpu->vram_total_bytes, gpu->vram_free_bytes);
      return kMoreVram;
    case 8:
      speed_up(gpu->host_to_device_gb_s);
      speed_up(gpu->zero_copy_gb_s);
      return "a quicker link";
    default:
      speed_up(gpu->vram_gb_s);
      speed_up(gpu->prefill_tflop_s);
      return "a quicker GPU";
  }
}

// Every plan as text, for comparing.
std::string text_of(const std::expected<Plan, Shortfall>& plan) {
  if (!plan) return plan.error().sentence() + plan.error().fix;
  std::string text =
      fmt::format("{} {} {} {} {}", plan->kv_tokens, plan->vram_slots, plan->ram_slots,
                  to_string(plan->rows), plan->prediction.turn_seconds);
  for (const PlannedLayer& layer : plan->layers) {
    text += layer.bank ? fmt::format(" {}{}", to_string(*layer.bank), layer.uses_vram_slots) : " -";
  }
  for (const PlanPart& part : plan->parts) {
    text += fmt::format(" {}:{}", to_string(part.item), part.bytes);
  }
  for (const std::string& note : plan->notes) text += note;
  return text;
}

TEST(PlanProperties, TenThousandMachines) {
  Dice dice(kSeed);
  int n_plans = 0;
  int n_gpu_plans = 0;
  double slowest_ms = 0;
  for (int i = 0; i < kCases && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("seed {}, case {}", kSeed, i));
    const ModelDemands demands = random_model(dice);
    const Machine machine = random_machine(dice);
    const Limits limits = random_limits(dice, demands, machine);
    const double begin = thread_cpu_seconds();
    const auto plan = make_plan(demands, machine, limits);
    slowest_ms = std::max(slowest_ms, 1e3 * (thread_cpu_seconds() - begin));
    if (i % 16 == 0) {
      EXPECT_EQ(text_of(make_plan(demands, machine, limits)), text_of(plan));
    }
    if (plan) {
      ++n_plans;
      n_gpu_plans += plan->gpu ? 1 : 0;
      expect_sound(*plan, demands, machine, limits);
    } else {
      EXPECT_GT(plan.error().missing_bytes(), 0u);
      EXPECT_FALSE(plan.error().fix.empty());
    }

    Machine richer = machine;
    const std::string change = enrich(dice, richer);
    SCOPED_TRACE(change);
    const auto better = make_plan(demands, richer, limits);
    if (!plan) continue;
    ASSERT_TRUE(better) << better.error().sentence();
    EXPECT_LE(better->prediction.turn_seconds, plan->prediction.turn_seconds * (1 + kRounding));
    // A plan that uses another GPU, or none, divides its memory by other rules.
    if (better->gpu == plan->gpu && (change == kMoreRam || change == kMoreVram)) {
      EXPECT_GE(better->kv_tokens, plan->kv_tokens);
    }
  }
  // The dice must show enough of either kind.
  EXPECT_GT(n_plans, kCases / 2);
  EXPECT_LT(n_plans, kCases);
  EXPECT_GT(n_gpu_plans, kCases / 5);
  RecordProperty("slowest_ms", std::to_string(slowest_ms));
  EXPECT_LT(slowest_ms, kMostMilliseconds);
}

}  // namespace
}  // namespace penstock
