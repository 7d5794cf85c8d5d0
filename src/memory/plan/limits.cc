#include "memory/plan/limits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/units.h"

namespace penstock {
namespace {

constexpr uint64_t kReserveShare = 16;
constexpr uint64_t kMostRamReserve = 4 * kGiB;
constexpr uint64_t kMostVramReserve = 512 * kMiB;

uint64_t without(uint64_t bytes, uint64_t part) { return bytes - std::min(bytes, part); }

Result<void> check_ids(std::string_view flag, const std::vector<int>& ids, int n_layers) {
  for (const int id : ids) {
    if (id >= 0 && id < n_layers) continue;
    return fail(ErrorKind::kInvalidArgument, "{}: there is no layer {}, the model's are 0 to {}",
                flag, id, n_layers - 1);
  }
  return {};
}

Result<void> check_gpu(const Machine& machine, const Limits& limits) {
  if (!limits.gpu) return {};
  if (!limits.use_gpu) {
    return fail(ErrorKind::kInvalidArgument, "--gpu names a GPU and none at once");
  }
  if (*limits.gpu >= 0 && std::cmp_less(*limits.gpu, machine.gpus.size())) return {};
  return fail(ErrorKind::kInvalidArgument, "--gpu {}: the machine has {} GPUs", *limits.gpu,
              machine.gpus.size());
}

// Slots in VRAM serve the layers that the CPU is not told to compute.
Result<void> check_slots(const ModelDemands& demands, const Machine& machine,
                         const Limits& limits) {
  if (!limits.expert_slots) return {};
  const int64_t slots = *limits.expert_slots;
  const int64_t n_experts = demands.n_experts();
  if (n_experts == 0) {
    return fail(ErrorKind::kInvalidArgument, "--expert-slots {}: {} has no experts", slots,
                demands.name);
  }
  int top_k = 0;
  for (const BankDemand& bank : demands.layers) top_k = std::max(top_k, bank.top_k);
  if (slots < top_k || slots > n_experts) {
    return fail(ErrorKind::kInvalidArgument,
                "--expert-slots {}: expected {} (what a token needs of a layer) to {} (all)", slots,
                top_k, n_experts);
  }
  const bool all_on_cpu = std::cmp_greater_equal(limits.cpu_layers.size(), demands.n_layers());
  if (all_on_cpu && limits.use_gpu && !machine.gpus.empty()) {
    return fail(ErrorKind::kInvalidArgument,
                "--expert-slots asks for slots in VRAM, but --cpu-layers leaves no layer to use "
                "them; drop one of the two, or add --gpu none for slots in RAM");
  }
  return {};
}

}  // namespace

Result<void> check_limits(const ModelDemands& demands, const Machine& machine,
                          const Limits& limits) {
  PENSTOCK_TRY(check_gpu(machine, limits));
  PENSTOCK_TRY(check_ids("--cpu-layers", limits.cpu_layers, demands.n_layers()));
  PENSTOCK_TRY(check_ids("--pin-exempt-layers", limits.pin_exempt_layers, demands.n_layers()));
  PENSTOCK_TRY(check_slots(demands, machine, limits));
  if (limits.kv_tokens && (*limits.kv_tokens < 1 || *limits.kv_tokens > kMostContextTokens)) {
    return fail(ErrorKind::kInvalidArgument, "--kv-tokens {}: expected 1 to {}", *limits.kv_tokens,
                kMostContextTokens);
  }
  constexpr int kMostSequences = 4096;
  if (limits.n_sequences < 1 || limits.n_sequences > kMostSequences) {
    return fail(ErrorKind::kInvalidArgument, "--sequences {}: expected 1 to {}", limits.n_sequences,
                kMostSequences);
  }
  if (limits.hit_rate && !(*limits.hit_rate >= 0 && *limits.hit_rate <= 1)) {
    return fail(ErrorKind::kInvalidArgument, "--hit-rate {}: expected 0 to 1", *limits.hit_rate);
  }
  return {};
}

uint64_t ram_reserve(const Machine& machine, const Limits& limits) {
  return limits.ram_reserve_bytes.value_or(
      std::min(machine.ram.available_bytes / kReserveShare, kMostRamReserve));
}

uint64_t vram_reserve(const MachineGpu& gpu, const Limits& limits) {
  return limits.vram_reserve_bytes.value_or(
      std::min(gpu.vram_free_bytes / kReserveShare, kMostVramReserve));
}

uint64_t ram_budget(const Machine& machine, const Limits& limits) {
  return without(machine.ram.available_bytes, ram_reserve(machine, limits));
}

uint64_t vram_budget(const MachineGpu& gpu, const Limits& limits) {
  return without(gpu.vram_free_bytes, vram_reserve(gpu, limits));
}

uint64_t pin_budget(const Machine& machine, const Limits& limits) {
  constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  return std::min({limits.pin_budget_bytes.value_or(kNoLimit),
                   machine.pin_quota_bytes.value_or(kNoLimit),
                   machine.ram.memlock_bytes.value_or(kNoLimit)});
}

}  // namespace penstock
