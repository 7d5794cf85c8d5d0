#include "memory/plan/shortfall.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/integers.h"
#include "base/units.h"
#include "kernels/attention/attention.h"
#include "memory/plan/search.h"

namespace penstock {
namespace {

uint64_t whole_mib(uint64_t bytes) { return ceil_div(bytes, kMiB); }

struct Change {
  std::string flag = {};
  Limits limits = {};
};

bool fits(const ModelDemands& demands, const Machine& machine, const Limits& limits) {
  std::vector<int> tries = {SearchSpace::kNoGpu};
  if (limits.gpu) tries = {*limits.gpu};
  if (!limits.gpu && limits.use_gpu) {
    for (size_t i = 0; i < machine.gpus.size(); ++i) tries.push_back(static_cast<int>(i));
  }
  return std::ranges::any_of(tries, [&](int gpu) {
    const bool skip = gpu == SearchSpace::kNoGpu && limits.expert_slots && tries.size() > 1;
    return !skip && SearchSpace(demands, machine, gpu, limits).best().has_value();
  });
}

// Fewer KV tokens than were asked for.
std::optional<Change> fewer_tokens(const ModelDemands& demands, const Limits& limits,
                                   uint64_t missing) {
  if (!limits.kv_tokens || demands.kv_bytes_a_token == 0) return std::nullopt;
  const uint64_t page_bytes = static_cast<uint64_t>(kPageTokens) * demands.kv_bytes_a_token;
  const auto pages = static_cast<int64_t>(ceil_div(missing, page_bytes));
  const int64_t tokens = round_up(*limits.kv_tokens, kPageTokens) - pages * kPageTokens;
  if (tokens <= 0) return std::nullopt;
  Change change = {.flag = fmt::format("--kv-tokens {}", tokens), .limits = limits};
  change.limits.kv_tokens = tokens;
  return change;
}

std::optional<Change> fewer_slots(const ModelDemands& demands, const Limits& limits,
                                  uint64_t missing) {
  if (!limits.expert_slots) return std::nullopt;
  uint64_t slot_bytes = 0;
  int top_k = 0;
  for (const BankDemand& bank : demands.layers) {
    slot_bytes = std::max(slot_bytes, bank.expert_bytes);
    top_k = std::max(top_k, bank.top_k);
  }
  const int64_t slots = *limits.expert_slots -
                        static_cast<int64_t>(ceil_div(missing, std::max<uint64_t>(slot_bytes, 1)));
  if (slots < top_k) return std::nullopt;
  Change change = {.flag = fmt::format("--expert-slots {}", slots), .limits = limits};
  change.limits.expert_slots = slots;
  return change;
}

std::optional<Change> smaller_reserve(const Machine& machine, const Limits& limits,
                                      const Shortfall& shortfall) {
  const bool is_vram = shortfall.place == Place::kVram;
  uint64_t reserve = ram_reserve(machine, limits);
  if (is_vram && !limits.gpu) return std::nullopt;
  if (is_vram) reserve = vram_reserve(machine.gpus[static_cast<size_t>(*limits.gpu)], limits);
  if (reserve < shortfall.missing_bytes()) return std::nullopt;
  const uint64_t mib = (reserve - shortfall.missing_bytes()) / kMiB;
  Change change = {.flag = fmt::format("--{}-reserve {}M", is_vram ? "vram" : "ram", mib),
                   .limits = limits};
  (is_vram ? change.limits.vram_reserve_bytes : change.limits.ram_reserve_bytes) = mib * kMiB;
  return change;
}

std::optional<Change> fewer_sequences(const ModelDemands& demands, const Limits& limits,
                                      uint64_t missing) {
  if (demands.sequence_bytes == 0) return std::nullopt;
  const auto fewer = static_cast<int64_t>(ceil_div(missing, demands.sequence_bytes));
  if (fewer >= limits.n_sequences) return std::nullopt;
  Change change = {.limits = limits};
  change.limits.n_sequences -= static_cast<int>(fewer);
  change.flag = fmt::format("--sequences {}", change.limits.n_sequences);
  return change;
}

std::optional<Change> any_processor(const Limits& limits) {
  if (!limits.gpu) return std::nullopt;
  Change change = {.flag = "--gpu none", .limits = limits};
  change.limits.gpu.reset();
  change.limits.use_gpu = false;
  return change;
}

}  // namespace

std::string smallest_fix(const ModelDemands& demands, const Machine& machine, const Limits& limits,
                         const Shortfall& shortfall) {
  const uint64_t missing = shortfall.missing_bytes();
  for (const std::optional<Change>& change :
       {fewer_tokens(demands, limits, missing), fewer_slots(demands, limits, missing),
        smaller_reserve(machine, limits, shortfall), fewer_sequences(demands, limits, missing),
        any_processor(limits)}) {
    if (change && fits(demands, machine, change->limits)) {
      return fmt::format("{} would fit", change->flag);
    }
  }
  return fmt::format("it takes {} MiB more {}", format_count(whole_mib(missing)),
                     to_string(shortfall.place));
}

std::string Shortfall::sentence() const {
  std::vector<std::string> items;
  for (const PlanPart& part : parts) {
    items.push_back(
        fmt::format("{} {}", to_string(part.item), format_count(whole_mib(part.bytes))));
  }
  return fmt::format(
      "it needs at least {} MiB of {} and may use {}: {} MiB are missing (in MiB: {})",
      format_count(whole_mib(needed_bytes)), to_string(place), format_count(budget_bytes / kMiB),
      format_count(whole_mib(missing_bytes())), fmt::join(items, ", "));
}

}  // namespace penstock
