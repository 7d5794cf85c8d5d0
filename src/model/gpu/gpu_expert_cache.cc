#include "model/gpu/gpu_expert_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <utility>

#include "memory/forecast_policy.h"

namespace penstock {

Result<std::unique_ptr<GpuExpertCache>> GpuExpertCache::make(const std::shared_ptr<Driver>& driver,
                                                             PinStore& pins, const ModelSpec& spec,
                                                             const GpuWeights& weights,
                                                             int64_t n_slots,
                                                             std::unique_ptr<BankStore> banks) {
  const auto n_places =
      static_cast<size_t>(spec.n_layers()) * static_cast<size_t>(spec.moe.n_experts);
  PENSTOCK_ASSIGN(DeviceMemory pool, DeviceMemory::allocate(*driver, static_cast<size_t>(n_slots) *
                                                                         weights.slot_bytes()));
  PENSTOCK_ASSIGN(DeviceMemory state,
                  DeviceMemory::allocate(*driver, (n_places + 1) * sizeof(int32_t)));
  PENSTOCK_ASSIGN(Stream stream, Stream::create(*driver));
  SlotTable table(
      spec.n_layers(), spec.moe.n_experts, n_slots,
      std::make_unique<ForecastPolicy>(spec.n_layers(), spec.moe.n_experts, spec.moe.top_k));
  std::unique_ptr<GpuExpertCache> cache(
      new GpuExpertCache(driver, spec, std::move(pool), std::move(state), std::move(stream),
                         weights, std::move(table), std::move(banks)));
  PENSTOCK_ASSIGN(
      AnonymousMemory memory,
      AnonymousMemory::reserve(cache->slots_at() + n_places * sizeof(int32_t), OsPages::kNormal));
  cache->shared_ = pins.pin(std::move(memory));
  const std::span<std::byte> bytes = cache->shared_->bytes();
  if (cache->shared_->grants().size() == 1 && cache->shared_->pinned_bytes() >= bytes.size()) {
    PENSTOCK_ASSIGN(cache->shared_view_, settled(*driver, driver->device_view(bytes)));
  }
  new (bytes.data()) GpuExpertMailbox;
  // No request was made yet. From memory that is not registered: it has been read when the call
  // returns.
  constexpr uint32_t kNone = 0;
  const DeviceBytes counter =
      cache->state_.bytes().subspan(n_places * sizeof(int32_t), sizeof(uint32_t));
  const GpuQueue queue = {driver.get(), cache->stream_.id()};
  PENSTOCK_TRY(settled(
      *driver, driver->copy_to_device(counter, std::as_bytes(std::span(&kNone, 1)), queue.stream)));
  return cache;
}

GpuExpertMailbox& GpuExpertCache::mailbox() const {
  return *reinterpret_cast<GpuExpertMailbox*>(shared_->bytes().data());
}

size_t GpuExpertCache::slots_at() const {
  return log_at() + static_cast<size_t>(n_layers_) * kGpuMostLogged * sizeof(int32_t);
}

bool GpuExpertCache::takes_calls(int64_t n_tokens) const {
  const int64_t n_rows = n_tokens * top_k_;
  return !shared_view_.empty() && banks_->pinned_bytes() >= banks_->bytes() &&
         n_tokens <= kGpuRouterTokens && n_rows <= kGpuMostLogged && n_rows <= n_slots();
}

DeviceSpan<const int32_t> GpuExpertCache::slots_of(int layer) const {
  const size_t bytes = static_cast<size_t>(n_experts_) * sizeof(int32_t);
  return state_.bytes().subspan(static_cast<size_t>(layer) * bytes, bytes).as<const int32_t>();
}

GpuExpertCalls GpuExpertCache::calls_of(int layer) const {
  constexpr size_t kLogBytes = kGpuMostLogged * sizeof(int32_t);
  const size_t counter_at = slots_.size() * sizeof(int32_t);
  return {.mailbox = shared_view_.subspan(0, sizeof(GpuExpertMailbox)).as<GpuExpertMailbox>(),
          .log = shared_view_.subspan(log_at() + static_cast<size_t>(layer) * kLogBytes, kLogBytes)
                     .as<int32_t>(),
          .counter = state_.bytes().subspan(counter_at, sizeof(uint32_t)).as<uint32_t>(),
          .layer = layer};
}

Result<void> GpuExpertCache::begin_calls(const GpuQueue& queue) {
  n_noted_ = 0;
  // Nothing runs: what a step left that was never served is nobody's any more.
  mailbox().failed = 0;
  mailbox().reply = mailbox().request;
  return send_slots(queue);
}

Result<void> GpuExpertCache::serve_calls(EventId done, int64_t n_tokens) {
  std::atomic_ref<uint32_t> request(mailbox().request);
  std::atomic_ref<uint32_t> reply(mailbox().reply);
  Result<void> served;
  for (;;) {
    if (const uint32_t number = request.load(std::memory_order_acquire);
        number != reply.load(std::memory_order_relaxed)) {
      const auto began = std::chrono::steady_clock::now();
      if (served) served = serve(n_tokens);
      // Also after an error: the kernel goes on, and the step is not used.
      reply.store(number, std::memory_order_release);
      counts_.wait_seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      continue;
    }
    PENSTOCK_ASSIGN(const bool has_happened, settled(*driver_, driver_->has_happened(done)));
    if (has_happened) break;
  }
  PENSTOCK_TRY(served);
  if (std::exchange(mailbox().failed, 0) != 0) {
    return fail(ErrorKind::kUnavailable,
                "the GPU waited half a second for experts of layer {} in vain", mailbox().layer);
  }
  note_uses(n_layers_, n_tokens);
  return {};
}

// Each once, in the order of the log.
std::vector<int> GpuExpertCache::chosen_by(int layer, int64_t n_tokens) const {
  const auto* const log = reinterpret_cast<const int32_t*>(shared_->bytes().data() + log_at()) +
                          static_cast<ptrdiff_t>(layer) * kGpuMostLogged;
  std::vector<int> experts;
  for (int64_t i = 0; i < n_tokens * top_k_; ++i) {
    if (std::ranges::find(experts, log[i]) == experts.end()) experts.push_back(log[i]);
  }
  return experts;
}

// Layers that asked for nothing had all they chose.
void GpuExpertCache::note_uses(int end_layer, int64_t n_tokens) {
  for (int layer = n_noted_; layer < end_layer; ++layer) {
    if (weights_->layer(layer).moe.router.shape.rows == 0) continue;  // a dense layer
    const std::vector<int> experts = chosen_by(layer, n_tokens);
    counts_.n_hits += std::ssize(experts);
    for (const SlotTable::Lease& lease : table_.lease(layer, experts)) {
      table_.give_back(lease.slot, /*keeps=*/true);
    }
  }
  n_noted_ = end_layer;
}

Result<void> GpuExpertCache::serve(int64_t n_tokens) {
  const int layer = mailbox().layer;
  note_uses(layer, n_tokens);
  n_noted_ = layer + 1;
  const std::vector<int> experts = chosen_by(layer, n_tokens);
  const GpuQueue queue = {driver_.get(), stream_.id()};
  const auto leases = lease(queue, layer, experts);
  // Whatever fails: nothing is still copied when the kernel goes on.
  const Result<void> sent = leases ? send_slots(queue) : Result<void>{};
  const Result<void> copied = settled(*driver_, driver_->synchronise(queue.stream));
  if (!leases) return std::unexpected(leases.error());
  PENSTOCK_TRY(sent);
  return copied;
}

Result<void> GpuExpertCache::send_slots(const GpuQueue& queue) {
  const std::span<std::byte> staged =
      shared_->bytes().subspan(slots_at(), slots_.size() * sizeof(int32_t));
  std::ranges::copy(std::as_bytes(std::span(slots_)), staged.begin());
  return settled(*driver_, driver_->copy_to_device(state_.bytes().subspan(0, staged.size()), staged,
                                                   queue.stream));
}

void GpuExpertCache::set_slot(size_t slot, ExpertId holds) {
  std::ranges::replace(slots_, static_cast<int32_t>(slot), kNoSlot);
  slots_[static_cast<size_t>(holds.layer) * static_cast<size_t>(n_experts_) + holds.index] =
      static_cast<int32_t>(slot);
}

// Leases slots and gives them back at once: whoever is given one next writes it behind what uses it
// now.
Result<std::vector<SlotTable::Lease>> GpuExpertCache::lease(const GpuQueue& queue, int layer,
                                                            std::span<const int> experts) {
  const std::vector<SlotTable::Lease> leases = table_.lease(layer, experts);
  Result<void> copied;
  for (const SlotTable::Lease& lease : leases) {
    lease.is_hit ? ++counts_.n_hits : ++counts_.n_misses;
    if (lease.is_hit) continue;
    const ExpertId id = {static_cast<uint16_t>(layer), static_cast<uint16_t>(experts[lease.which])};
    set_slot(lease.slot, id);
    if (copied) copied = copy(queue, id, lease.slot);
  }
  for (const SlotTable::Lease& lease : leases) {
    const bool keeps = lease.is_hit || copied.has_value();
    table_.give_back(lease.slot, keeps);
    if (!keeps) std::ranges::replace(slots_, static_cast<int32_t>(lease.slot), kNoSlot);
  }
  PENSTOCK_TRY(copied);
  return leases;
}

Result<size_t> GpuExpertCache::bring(const GpuQueue& queue, int layer,
                                     std::span<GpuExpertGroup> groups) {
  std::vector<int> experts;
  for (const GpuExpertGroup& group : groups) experts.push_back(group.expert);
  PENSTOCK_ASSIGN(const std::vector<SlotTable::Lease> leases, lease(queue, layer, experts));
  std::vector<GpuExpertGroup> brought;
  std::vector<bool> is_brought(groups.size(), false);
  for (const SlotTable::Lease& lease : leases) {
    brought.push_back(groups[lease.which]);
    brought.back().slot = static_cast<int32_t>(lease.slot);
    is_brought[lease.which] = true;
  }
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
