#include "model/gpu/gpu_expert_cache.h"

#include <algorithm>
#include <array>
#include <utility>

#include "memory/forecast_policy.h"

namespace penstock {

Result<std::unique_ptr<GpuExpertCache>> GpuExpertCache::make(Driver& driver, const ModelSpec& spec,
                                                             const GpuWeights& weights,
                                                             int64_t n_slots,
                                                             std::unique_ptr<BankStore> banks) {
  PENSTOCK_ASSIGN(DeviceMemory pool, DeviceMemory::allocate(driver, static_cast<size_t>(n_slots) *
                                                                        weights.slot_bytes()));
  SlotTable table(
      spec.n_layers(), spec.moe.n_experts, n_slots,
      std::make_unique<ForecastPolicy>(spec.n_layers(), spec.moe.n_experts, spec.moe.top_k));
  return std::unique_ptr<GpuExpertCache>(
      new GpuExpertCache(std::move(pool), weights, std::move(table), std::move(banks)));
}

Result<size_t> GpuExpertCache::bring(const GpuQueue& queue, int layer,
                                     std::span<GpuExpertGroup> groups) {
  std::vector<int> experts;
  for (const GpuExpertGroup& group : groups) experts.push_back(group.expert);
  const std::vector<SlotTable::Lease> leases = table_.lease(layer, experts);
  Result<void> copied;
  std::vector<GpuExpertGroup> brought;
  std::vector<bool> is_brought(groups.size(), false);
  for (const SlotTable::Lease& lease : leases) {
    GpuExpertGroup group = groups[lease.which];
    group.slot = static_cast<int32_t>(lease.slot);
    brought.push_back(group);
    is_brought[lease.which] = true;
    lease.is_hit ? ++counts_.n_hits : ++counts_.n_misses;
    const ExpertId id = {static_cast<uint16_t>(layer), static_cast<uint16_t>(group.expert)};
    if (!lease.is_hit && copied) copied = copy(queue, id, lease.slot);
  }
  // One stream: whoever is given a slot next writes it behind what is queued now.
  for (const SlotTable::Lease& lease : leases) {
    table_.give_back(lease.slot, /*keeps=*/lease.is_hit || copied.has_value());
  }
  PENSTOCK_TRY(copied);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!is_brought[i]) brought.push_back(groups[i]);
  }
  std::ranges::copy(brought, groups.begin());
  return leases.size();
}

Result<void> GpuExpertCache::copy(const GpuQueue& queue, ExpertId id, size_t slot) {
  const GpuExperts& layout = weights_->layer(id.layer).moe.experts;
  const DeviceBytes to =
      pool_.bytes().subspan(slot * weights_->slot_bytes(), weights_->slot_bytes());
  const auto [gate, up, down] = banks_->matrices(id);
  const std::array parts = {std::pair{&gate, layout.gate}, std::pair{&up, layout.up},
                            std::pair{&down, layout.down}};
  for (const auto& [matrix, part] : parts) {
    PENSTOCK_TRY(copy(queue, matrix->data, to.subspan(part.data, matrix->data.size())));
    PENSTOCK_TRY(copy(queue, matrix->scales, to.subspan(part.scales, matrix->scales.size())));
  }
  return {};
}

Result<void> GpuExpertCache::copy(const GpuQueue& queue, std::span<const std::byte> from,
                                  DeviceBytes to) {
  size_t at = 0;
  for (const std::span<const std::byte> piece : banks_->copy_pieces(from)) {
    PENSTOCK_TRY(settled(*queue.driver, queue.driver->copy_to_device(to.subspan(at, piece.size()),
                                                                     piece, queue.stream)));
    at += piece.size();
    counts_.bytes_read += piece.size();
  }
  return {};
}

HostAssignments group_by_expert(std::span<const int32_t> chosen, int top_k, int n_experts) {
  HostAssignments all;
  std::vector<int32_t> next(static_cast<size_t>(n_experts), 0);
  for (const int32_t expert : chosen) ++next[static_cast<size_t>(expert)];
  int32_t row = 0;
  for (int32_t expert = 0; expert < n_experts; ++expert) {
    const int32_t n = std::exchange(next[static_cast<size_t>(expert)], row);
    if (n > 0) all.groups.push_back({expert, row, n, 0});
    row += n;
  }
  all.row_of.resize(chosen.size());
  all.token_of.resize(chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const int32_t at = next[static_cast<size_t>(chosen[i])]++;
    all.row_of[i] = at;
    all.token_of[static_cast<size_t>(at)] = static_cast<int32_t>(i) / top_k;
  }
  return all;
}

}  // namespace penstock
