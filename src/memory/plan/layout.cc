#include "memory/plan/layout.h"

#include <algorithm>

#include "base/integers.h"
#include "base/units.h"
#include "kernels/attention/attention.h"

namespace penstock {
namespace {

// A KV cache and the experts compete for the same memory, so at first it gets so many tokens (a
// coding agent's conversation), but no more than one part in so many of the memory that is left
// beside the dense weights. Once every expert has its place it grows to the model's context.
constexpr int64_t kUsualKvTokens = 65536;
constexpr uint64_t kKvVramShare = 3;
constexpr uint64_t kKvRamShare = 8;

// The ring through which prefill streams: long reads of the link, and at least two experts, one
// that lands while the other is multiplied.
constexpr uint64_t kRingBytes = 256 * kMiB;

uint64_t without(uint64_t bytes, uint64_t part) { return bytes - std::min(bytes, part); }

uint64_t slots_within(uint64_t bytes, uint64_t slot_bytes) {
  return slot_bytes == 0 ? 0 : bytes / slot_bytes;
}

}  // namespace

SplitSums sums_of(const BankOrder& order, const Split& split) {
  const int vram_begin = order.n_cachable() - split.n_vram;
  return with_cover({.pinned = order.sums(0, split.n_pinned),
                     .middle = order.sums(split.n_pinned, vram_begin),
                     .in_vram = order.sums(vram_begin, order.n_cachable()),
                     .cpu_only = order.sums(order.n_cachable(), order.n())},
                    split.cover);
}

SplitSums with_cover(SplitSums sums, SlotCover cover) {
  sums.covered = cover == SlotCover::kNothing ? BankSums{} : sums.pinned;
  if (cover == SlotCover::kAllCachable) sums.covered += sums.middle;
  return sums;
}

LayoutMaker::LayoutMaker(const ModelDemands& demands, const Machine& machine, const MachineGpu* gpu,
                         const Limits& limits, const BankOrder& order)
    : demands_(demands),
      limits_(limits),
      order_(order),
      has_gpu_(gpu != nullptr),
      ram_budget_(penstock::ram_budget(machine, limits)),
      vram_budget_(gpu == nullptr ? 0 : penstock::vram_budget(*gpu, limits)),
      sequences_bytes_(static_cast<uint64_t>(limits.n_sequences) * demands.sequence_bytes) {
  const auto bytes_of = [&](int64_t tokens) {
    return static_cast<uint64_t>(round_up(tokens, kPageTokens)) * demands.kv_bytes_a_token;
  };
  const auto up_to_context = [&](int64_t tokens) {
    return bytes_of(limits.kv_tokens.value_or(std::min(tokens, demands.context_length)));
  };
  least_kv_bytes_ = up_to_context(kLeastKvTokens);
  usual_kv_bytes_ = up_to_context(kUsualKvTokens);
  most_kv_bytes_ = up_to_context(demands.context_length);
}

uint64_t LayoutMaker::fixed_vram() const {
  return demands_.dense_bytes + demands_.workspace_bytes + sequences_bytes_;
}

uint64_t LayoutMaker::fixed_ram() const {
  return demands_.embed_bytes + kStagingBytes + (has_gpu_ ? 0 : fixed_vram());
}

uint64_t LayoutMaker::first_kv_bytes(uint64_t room, uint64_t share) const {
  return std::clamp(room / share, least_kv_bytes_, std::max(usual_kv_bytes_, least_kv_bytes_));
}

void LayoutMaker::set_kv(MemoryLayout& layout, uint64_t bytes) const {
  const uint64_t page_bytes = static_cast<uint64_t>(kPageTokens) * demands_.kv_bytes_a_token;
  const int64_t most_tokens =
      round_up(limits_.kv_tokens.value_or(demands_.context_length), kPageTokens);
  layout.kv_tokens =
      page_bytes == 0 ? most_tokens : static_cast<int64_t>(bytes / page_bytes) * kPageTokens;
  layout.kv_bytes = page_bytes == 0 ? 0 : bytes / page_bytes * page_bytes;
}

MemoryLayout LayoutMaker::make(const Split& split, const SplitSums& sums) const {
  MemoryLayout layout = {.has_gpu = has_gpu_, .split = split, .sums = sums};
  if (has_gpu_) fill_vram(layout);
  fill_ram(layout);
  return layout;
}

// Slots are counted before KV pages are rounded, so that a budget one byte greater never has fewer
// of either.
void LayoutMaker::fill_vram(MemoryLayout& layout) const {
  const Split& split = layout.split;
  const bool has_slots = split.cover != SlotCover::kNothing;
  const auto n_covered = static_cast<uint64_t>(layout.sums.covered.n_experts);
  const bool is_told = has_slots && limits_.expert_slots.has_value();
  const auto least_slots =
      static_cast<uint64_t>(!has_slots ? 0 : limits_.expert_slots.value_or(order_.most_top_k()));
  if (split.has_ring) {
    layout.ring_bytes =
        std::max(std::min(kRingBytes, order_.largest_bank_bytes()), 2 * order_.slot_bytes());
  }
  const uint64_t fixed = fixed_vram() + layout.ring_bytes + layout.sums.in_vram.bytes;
  const uint64_t least_slots_bytes = least_slots * order_.slot_bytes();
  uint64_t kv = first_kv_bytes(without(vram_budget_, fixed_vram()), kKvVramShare);
  if (is_told) {  // the KV cache makes way, as far as it can
    const uint64_t left =
        without(vram_budget_, fixed_vram() + layout.ring_bytes + least_slots_bytes);
    kv = std::clamp(left, least_kv_bytes_, kv);
  }
  const uint64_t least = fixed + least_slots_bytes + kv;
  layout.vram_missing = without(least, vram_budget_);
  const uint64_t room = without(vram_budget_, fixed + kv);
  uint64_t slots = least_slots;
  if (has_slots && !is_told) {
    slots = std::clamp(slots_within(room, order_.slot_bytes()), least_slots,
                       std::max(least_slots, n_covered));
  }
  layout.vram_slots = static_cast<int64_t>(slots);
  const uint64_t slots_bytes = slots * order_.slot_bytes();
  const bool is_all_served = split.n_vram == order_.n_cachable() ||
                             (split.cover == SlotCover::kAllCachable && slots >= n_covered);
  if (is_all_served) {
    kv = std::clamp(kv + without(room, slots_bytes), kv, std::max(kv, most_kv_bytes_));
  }
  set_kv(layout, kv);
  layout.vram_used = fixed + slots_bytes + layout.kv_bytes;
}

void LayoutMaker::fill_ram(MemoryLayout& layout) const {
  const Split& split = layout.split;
  const BankSums rest = layout.sums.rest();
  const bool is_told = !has_gpu_ && limits_.expert_slots.has_value();
  const auto least_slots = static_cast<uint64_t>(
      rest.n_experts == 0 ? 0 : (is_told ? *limits_.expert_slots : int64_t{order_.most_top_k()}));
  const uint64_t least_slots_bytes = least_slots * order_.slot_bytes();
  const uint64_t rows = split.rows_in_ram ? demands_.row_table_bytes : 0;
  const uint64_t fixed = fixed_ram() + layout.sums.pinned.bytes + rows;

  uint64_t kv = 0;
  if (!has_gpu_) {
    kv = first_kv_bytes(without(ram_budget_, fixed_ram() + least_slots_bytes), kKvRamShare);
    if (is_told) {
      kv = std::clamp(without(ram_budget_, fixed + least_slots_bytes), least_kv_bytes_,
                      most_kv_bytes_);
    }
    // Rows are read ahead of the step that needs them; a longer context is worth more.
    if (split.rows_in_ram) kv = most_kv_bytes_;
  }
  const uint64_t room = without(ram_budget_, fixed + kv);
  const bool must_be_on_disk = is_told || limits_.banks == BankPlace::kDisk;
  // Slots in VRAM over all of these banks would want them in RAM.
  const bool must_be_in_ram = split.cover == SlotCover::kAllCachable && rest.n_experts > 0;
  layout.rest_on_disk = rest.n_experts > 0 && limits_.banks != BankPlace::kRam &&
                        (must_be_on_disk || rest.bytes > room);
  uint64_t experts = rest.bytes;
  if (layout.rest_on_disk && !must_be_in_ram) {
    const uint64_t slots =
        is_told ? least_slots
                : std::clamp(slots_within(room, order_.slot_bytes()), least_slots,
                             std::max(least_slots, static_cast<uint64_t>(rest.n_experts)));
    layout.ram_slots = static_cast<int64_t>(slots);
    experts = slots * order_.slot_bytes();
  }
  layout.ram_missing = without(fixed + kv + experts, ram_budget_);
  if (!has_gpu_) {
    if (!layout.rest_on_disk && !split.rows_in_ram) {
      kv = std::clamp(kv + without(room, experts), kv, std::max(kv, most_kv_bytes_));
    }
    set_kv(layout, kv);
    kv = layout.kv_bytes;
  }
  layout.ram_used = fixed + kv + experts;
}

}  // namespace penstock
