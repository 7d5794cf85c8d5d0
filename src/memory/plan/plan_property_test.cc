// Ten thousand machines and models that nobody has: no plan exceeds a budget, and more of anything
// is never worse.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/units.h"
#include "memory/plan/plan.h"
#include "memory/plan/plan_cases_test.h"
#include "memory/plan/plan_dice_test.h"

namespace penstock {
namespace {

constexpr uint64_t kSeed = 20261130;
constexpr int kCases = 10'000;
// Layouts that differ by less than 1e-9 of a turn are taken for equal, a chain of them for less
// than this.
constexpr double kRounding = 1e-6;
constexpr const char* kMoreRam = "more RAM";
constexpr const char* kMoreVram = "more VRAM";

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
  for (int i = 0; i < kCases && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("seed {}, case {}", kSeed, i));
    const ModelDemands demands = random_model(dice);
    const Machine machine = random_machine(dice);
    const Limits limits = random_limits(dice, demands, machine);
    const auto plan = make_plan(demands, machine, limits);
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
}

}  // namespace
}  // namespace penstock
