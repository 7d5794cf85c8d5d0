#include "memory/plan/bank_order.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace penstock {
namespace {

// 0, 1/2, 1/4, 3/4, 1/8, ...: the first so many of them are always spread over [0, 1).
double spread_rank(int index) {
  double rank = 0;
  double half = 0.5;
  for (; index > 0; index /= 2, half /= 2) rank += index % 2 * half;
  return rank;
}

// Layers in a row of the model, as spread_rank visits them.
std::vector<int> spread_places(int n) {
  std::vector<int> places;
  std::vector<bool> taken(static_cast<size_t>(n), false);
  for (int i = 0; std::cmp_less(places.size(), n); ++i) {
    const auto place = static_cast<size_t>(spread_rank(i) * n);
    if (taken[place]) continue;
    taken[place] = true;
    places.push_back(static_cast<int>(place));
  }
  return places;
}

// How many of a bank's experts a chunk's tokens choose, each token top_k of them at random.
double experts_of_chunk(const BankDemand& bank, int chunk_tokens) {
  const double missed_by_one = 1 - static_cast<double>(bank.top_k) / bank.n_experts;
  return bank.n_experts * (1 - std::pow(missed_by_one, chunk_tokens));
}

}  // namespace

BankOrder::BankOrder(const ModelDemands& demands, const Limits& limits, const PlanRates& rates) {
  arrange(demands, limits);
  before_.emplace_back();
  for (const BankDemand* bank : demands_) {
    before_.push_back(before_.back() + sums_of(*bank, demands.chunk_tokens, rates));
    slot_bytes_ = std::max(slot_bytes_, bank->expert_bytes);
    largest_bank_bytes_ = std::max(largest_bank_bytes_, bank->bank_bytes());
    most_top_k_ = std::max(most_top_k_, bank->top_k);
  }
}

BankSums BankOrder::sums(int begin, int end) const {
  return before_[static_cast<size_t>(end)] - before_[static_cast<size_t>(begin)];
}

void BankOrder::arrange(const ModelDemands& demands, const Limits& limits) {
  std::vector<const BankDemand*> of_layer;
  for (const BankDemand& bank : demands.layers) {
    of_layer.insert(of_layer.end(), static_cast<size_t>(bank.n_layers), &bank);
  }
  enum Group { kPinnable, kExempt, kCpu };
  const auto group_of = [&](int layer) {
    if (std::ranges::binary_search(limits.cpu_layers, layer)) return kCpu;
    return std::ranges::binary_search(limits.pin_exempt_layers, layer) ? kExempt : kPinnable;
  };
  struct Entry {
    Group group;
    uint64_t bytes;
    int rank;
    int layer;
  };
  std::vector<Entry> entries;
  for (const int layer : spread_places(static_cast<int>(of_layer.size()))) {
    const BankDemand& bank = *of_layer[static_cast<size_t>(layer)];
    if (bank.n_experts == 0) continue;
    entries.push_back(
        {group_of(layer), bank.bank_bytes(), static_cast<int>(entries.size()), layer});
  }
  std::ranges::sort(entries, {}, [](const Entry& entry) {
    return std::tuple(entry.group, entry.bytes, entry.rank);
  });
  for (const Entry& entry : entries) {
    layers_.push_back(entry.layer);
    demands_.push_back(of_layer[static_cast<size_t>(entry.layer)]);
    n_pinnable_ += entry.group == kPinnable ? 1 : 0;
    n_cachable_ += entry.group != kCpu ? 1 : 0;
  }
}

// A miss in page-locked RAM is copied or computed where it lies, whichever is sooner done: both go
// on at once, and RAM can be read no faster than it can.
BankSums BankOrder::sums_of(const BankDemand& bank, int chunk_tokens,
                            const PlanRates& rates) const {
  const auto active = static_cast<double>(bank.active_bytes());
  const PlanRates::Known cpu = rates.cpu_weights(bank.format);
  const double both = cpu.per_second + rates[Rate::kMissCopies];
  const double miss_rate = std::min(both, std::max(rates[Rate::kRamRead], cpu.per_second));
  return {
      .bytes = bank.bank_bytes(),
      .n_experts = bank.n_experts,
      .active_bytes = active,
      .cpu_seconds = active / cpu.per_second,
      .miss_seconds = active / miss_rate,
      .chunk_bytes = experts_of_chunk(bank, chunk_tokens) * static_cast<double>(bank.expert_bytes),
      .chunk_flops = 2.0 * chunk_tokens * bank.top_k * static_cast<double>(bank.expert_params),
      .n_unknown = cpu.is_known ? 0 : 1,
      .n_uncounted = bank.expert_params > 0 ? 0 : 1};
}

}  // namespace penstock
