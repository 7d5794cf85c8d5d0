#include "memory/plan/search.h"

#include <algorithm>
#include <limits>

#include "base/integers.h"

namespace penstock {
namespace {

// Splits of more layers than this are tried in steps, which keeps a plan in milliseconds. The steps
// depend on the model alone, so a greater budget still allows all that a smaller one did.
constexpr int kMostSteps = 64;

constexpr double kSameTime = 1e-9;  // of a turn: sums in another order

// Of two equally quick layouts the one that leaves more RAM.
bool is_better(double turn, const MemoryLayout& layout, double best_turn,
               const MemoryLayout& best) {
  if (turn < best_turn * (1 - kSameTime)) return true;
  return turn <= best_turn * (1 + kSameTime) && layout.ram_used < best.ram_used;
}

}  // namespace

SearchSpace::SearchSpace(const ModelDemands& demands, const Machine& machine, int gpu,
                         const Limits& limits)
    : demands_(demands),
      limits_(limits),
      gpu_(gpu),
      gpu_machine_(gpu == kNoGpu ? nullptr : &machine.gpus[static_cast<size_t>(gpu)]),
      pin_budget_(penstock::pin_budget(machine, limits)),
      rates_(machine, gpu_machine_),
      order_(demands, limits, rates_),
      maker_(demands, machine, gpu_machine_, limits, order_),
      predictor_(demands, limits, rates_) {}

std::optional<MemoryLayout> SearchSpace::best() const {
  std::optional<MemoryLayout> best;
  double best_turn = std::numeric_limits<double>::infinity();
  for_each_layout([&](const MemoryLayout& layout) {
    if (!layout.fits()) return;
    const double turn = predictor_.turn_seconds(layout, best_turn * (1 + kSameTime));
    if (best && !is_better(turn, layout, best_turn, *best)) return;
    best = layout;
    best_turn = turn;
  });
  return best;
}

MemoryLayout SearchSpace::nearest() const {
  std::optional<MemoryLayout> nearest;
  for_each_layout([&](const MemoryLayout& layout) {
    if (!nearest || layout.missing() < nearest->missing()) nearest = layout;
  });
  // Limits that no split obeys: slots to be had by no bank.
  return nearest ? *nearest : maker_.make({}, sums_of(order_, {}));
}

void SearchSpace::for_each_layout(FunctionRef<void(const MemoryLayout&)> visit) const {
  if (gpu_ == kNoGpu) {
    for_each_cover({}, visit);
    return;
  }
  const int step = std::max(1, ceil_div(order_.n(), kMostSteps));
  const auto next = [&](int value, int last) {
    return value == last ? last + 1 : std::min(value + step, last);
  };
  const int n_cachable = order_.n_cachable();
  for (int n_vram = 0; n_vram <= n_cachable; n_vram = next(n_vram, n_cachable)) {
    const int most_pinned = std::min(order_.n_pinnable(), n_cachable - n_vram);
    for (int n_pinned = 0; n_pinned <= most_pinned; n_pinned = next(n_pinned, most_pinned)) {
      if (order_.sums(0, n_pinned).bytes > pin_budget_) break;
      for_each_cover({.n_pinned = n_pinned, .n_vram = n_vram}, visit);
    }
  }
}

void SearchSpace::for_each_cover(Split split, FunctionRef<void(const MemoryLayout&)> visit) const {
  const SplitSums sums = sums_of(order_, split);
  for (const auto cover : {SlotCover::kNothing, SlotCover::kPinned, SlotCover::kAllCachable}) {
    split.cover = cover;
    if (!is_allowed(split)) continue;
    const SplitSums covered = with_cover(sums, cover);
    const bool may_stream =
        gpu_ != kNoGpu && covered.pinned.n_experts + covered.middle.n_experts > 0;
    for (const bool has_ring : {false, true}) {
      // Slots are filled through the ring too.
      if (has_ring ? !may_stream : cover != SlotCover::kNothing) continue;
      split.has_ring = has_ring;
      for (const bool rows_in_ram : {false, true}) {
        if (rows_in_ram && demands_.row_table_bytes == 0) break;
        split.rows_in_ram = rows_in_ram;
        visit(maker_.make(split, covered));
      }
    }
  }
}

// Page-locked banks are for slots, and slots for banks. Slots that the user asked for are there,
// unless every expert is in VRAM anyway.
bool SearchSpace::is_allowed(const Split& split) const {
  if (gpu_ == kNoGpu) return split.cover == SlotCover::kNothing;
  const bool has_middle = split.n_pinned + split.n_vram < order_.n_cachable();
  switch (split.cover) {
    case SlotCover::kNothing:
      if (split.n_pinned > 0) return false;
      return !limits_.expert_slots ||
             (split.n_vram == order_.n() && *limits_.expert_slots == demands_.n_experts());
    case SlotCover::kPinned:
      return split.n_pinned > 0;
    case SlotCover::kAllCachable:
      return has_middle;
  }
  return false;
}

}  // namespace penstock
