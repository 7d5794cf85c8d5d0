#include "memory/plan/plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "base/units.h"
#include "memory/plan/plan_notes.h"
#include "memory/plan/search.h"
#include "memory/plan/shortfall.h"

namespace penstock {
namespace {

// What each item of a layout takes in VRAM or RAM, by the split that the layout is of.
std::vector<PlanPart> parts_of(const ModelDemands& demands, const Machine& machine,
                               const Limits& limits, const SearchSpace& space,
                               const MemoryLayout& layout) {
  const Split& split = layout.split;
  const uint64_t slot_bytes = space.order().slot_bytes();
  const BankSums rest = layout.sums.rest();
  const Place main = layout.has_gpu ? Place::kVram : Place::kRam;
  const auto sequences = static_cast<uint64_t>(limits.n_sequences) * demands.sequence_bytes;
  const uint64_t in_ram = layout.sums.pinned.bytes + (layout.rest_on_disk ? 0 : rest.bytes);
  const uint64_t on_disk = layout.rest_on_disk ? rest.bytes : 0;
  std::vector<PlanPart> parts = {
      {PlanItem::kDense, main, demands.dense_bytes},
      {PlanItem::kEmbedding, Place::kRam, demands.embed_bytes},
      {PlanItem::kBanks, Place::kVram, layout.sums.in_vram.bytes},
      {PlanItem::kBanks, Place::kRam, in_ram},
      {PlanItem::kBanks, Place::kDisk, on_disk},
      {PlanItem::kSlots, Place::kVram, static_cast<uint64_t>(layout.vram_slots) * slot_bytes},
      {PlanItem::kSlots, Place::kRam, static_cast<uint64_t>(layout.ram_slots) * slot_bytes},
      {PlanItem::kKv, main, layout.kv_bytes},
      {PlanItem::kSequences, main, sequences},
      {PlanItem::kRows, split.rows_in_ram ? Place::kRam : Place::kDisk, demands.row_table_bytes},
      {PlanItem::kWorkspace, main, demands.workspace_bytes},
      {PlanItem::kRing, Place::kVram, layout.ring_bytes},
      {PlanItem::kStaging, Place::kRam, kStagingBytes},
      {PlanItem::kReserve, Place::kRam, ram_reserve(machine, limits)}};
  if (layout.has_gpu) {
    const MachineGpu& gpu = machine.gpus[static_cast<size_t>(space.gpu())];
    parts.push_back({PlanItem::kReserve, Place::kVram, vram_reserve(gpu, limits)});
  }
  std::erase_if(parts, [](const PlanPart& part) { return part.bytes == 0; });
  return parts;
}

// Banks in RAM are locked as far as the limit allows, whole ones, in the order of places.
class LayerMaker {
 public:
  LayerMaker(const SearchSpace& space, const MemoryLayout& layout, uint64_t may_lock)
      : order_(space.order()), layout_(layout), may_lock_(may_lock) {}

  void fill(Plan& plan) {
    const Split& split = layout_.split;
    const int vram_begin = order_.n_cachable() - split.n_vram;
    const bool covers_middle = split.cover == SlotCover::kAllCachable;
    for (int place = 0; place < order_.n(); ++place) {
      PlannedLayer& layer = plan.layers[static_cast<size_t>(order_.layer(place))];
      const bool is_in_vram = place >= vram_begin && place < order_.n_cachable();
      if (place < split.n_pinned) {
        layer = {Residency::kPinned, /*uses_vram_slots=*/true};
      } else if (is_in_vram) {
        layer = {Residency::kVram, /*uses_vram_slots=*/false};
      } else {
        layer = {rest_residency(order_.demand(place).bank_bytes()),
                 covers_middle && place < vram_begin};
      }
    }
    plan.locked_bytes = locked_bytes_;
  }

 private:
  Residency rest_residency(uint64_t bank_bytes) {
    if (layout_.rest_on_disk) return Residency::kDisk;
    if (bank_bytes > may_lock_) {
      may_lock_ = 0;  // no later one either, so that a greater limit never locks fewer
      return Residency::kPageable;
    }
    may_lock_ -= bank_bytes;
    locked_bytes_ += bank_bytes;
    return Residency::kLocked;
  }

  const BankOrder& order_;
  const MemoryLayout& layout_;
  uint64_t may_lock_;
  uint64_t locked_bytes_ = 0;
};

RowBackend rows_of(const ModelDemands& demands, const MemoryLayout& layout, uint64_t may_pin) {
  if (demands.row_table_bytes == 0) return RowBackend::kNone;
  if (!layout.split.rows_in_ram) return RowBackend::kDirect;
  return layout.has_gpu && demands.row_table_bytes <= may_pin ? RowBackend::kPinned
                                                              : RowBackend::kMmap;
}

Plan plan_of(const ModelDemands& demands, const Machine& machine, const Limits& limits,
             const SearchSpace& space, const MemoryLayout& layout) {
  const uint64_t pinned_banks = layout.sums.pinned.bytes;
  const uint64_t may_pin = pin_budget(machine, limits) - pinned_banks;
  Plan plan = {.layers = std::vector<PlannedLayer>(static_cast<size_t>(demands.n_layers())),
               .parts = parts_of(demands, machine, limits, space, layout),
               .kv_tokens = layout.kv_tokens,
               .vram_slots = layout.vram_slots,
               .ram_slots = layout.ram_slots,
               .slot_bytes = space.order().slot_bytes(),
               .rows = rows_of(demands, layout, may_pin),
               .ram_bytes = layout.ram_used,
               .ram_budget = ram_budget(machine, limits),
               .vram_bytes = layout.vram_used,
               .pinned_bytes = pinned_banks,
               .pin_budget = pin_budget(machine, limits),
               .prediction = space.predictor().predict(layout)};
  if (layout.has_gpu) {
    plan.gpu = space.gpu();
    plan.vram_budget = vram_budget(machine.gpus[static_cast<size_t>(space.gpu())], limits);
  }
  if (plan.rows == RowBackend::kPinned) plan.pinned_bytes += demands.row_table_bytes;
  const uint64_t memlock = machine.ram.memlock_bytes.value_or(std::numeric_limits<uint64_t>::max());
  LayerMaker(space, layout, memlock - std::min(memlock, plan.pinned_bytes)).fill(plan);
  return plan;
}

Shortfall shortfall_of(const ModelDemands& demands, const Machine& machine, const Limits& limits,
                       const SearchSpace& space) {
  const MemoryLayout layout = space.nearest();
  const bool is_vram = layout.vram_missing > layout.ram_missing;
  Shortfall shortfall = {.place = is_vram ? Place::kVram : Place::kRam,
                         .parts = parts_of(demands, machine, limits, space, layout)};
  std::erase_if(shortfall.parts, [&](const PlanPart& part) {
    return part.place != shortfall.place || part.item == PlanItem::kReserve;
  });
  shortfall.budget_bytes = is_vram
                               ? vram_budget(machine.gpus[static_cast<size_t>(space.gpu())], limits)
                               : ram_budget(machine, limits);
  shortfall.needed_bytes =
      shortfall.budget_bytes + (is_vram ? layout.vram_missing : layout.ram_missing);
  return shortfall;
}

// Which GPUs to try, and whether to try none.
std::vector<int> places_to_try(const Machine& machine, const Limits& limits) {
  std::vector<int> tries;
  if (limits.gpu) return {*limits.gpu};
  for (size_t i = 0; limits.use_gpu && i < machine.gpus.size(); ++i) {
    // Several GPUs of one kind are one to choose.
    const auto same = std::ranges::find(machine.gpus, machine.gpus[i]);
    if (std::cmp_equal(same - machine.gpus.begin(), i)) tries.push_back(static_cast<int>(i));
  }
  // Slots that were asked for are VRAM's wherever there is any.
  if (tries.empty() || !limits.expert_slots) tries.push_back(SearchSpace::kNoGpu);
  return tries;
}

}  // namespace

std::string_view to_string(Place place) {
  constexpr std::array<std::string_view, kPlaces> kNames = {"VRAM", "RAM", "disk"};
  return kNames[static_cast<size_t>(place)];
}

std::string_view to_string(PlanItem item) {
  constexpr std::array<std::string_view, kPlanItems> kNames = {
      "dense weights", "embedding", "expert banks", "expert slots", "KV cache", "sequence states",
      "row tables",    "workspace", "prefill ring", "staging",      "reserve"};
  return kNames[static_cast<size_t>(item)];
}

int Plan::n_banks(Residency residency) const {
  return static_cast<int>(std::ranges::count_if(
      layers, [&](const PlannedLayer& layer) { return layer.bank == residency; }));
}

uint64_t Plan::bytes(Place place, PlanItem item) const {
  uint64_t bytes = 0;
  for (const PlanPart& part : parts) {
    if (part.place == place && part.item == item) bytes += part.bytes;
  }
  return bytes;
}

std::expected<Plan, Shortfall> make_plan(const ModelDemands& demands, const Machine& machine,
                                         const Limits& limits) {
  std::optional<Plan> best;
  std::optional<Shortfall> nearest;
  for (const int gpu : places_to_try(machine, limits)) {
    const SearchSpace space(demands, machine, gpu, limits);
    if (const auto layout = space.best()) {
      Plan plan = plan_of(demands, machine, limits, space, *layout);
      const double turn = plan.prediction.turn_seconds;
      if (!best || turn < best->prediction.turn_seconds) best = std::move(plan);
      continue;
    }
    Shortfall shortfall = shortfall_of(demands, machine, limits, space);
    const bool is_nearer = !nearest || shortfall.missing_bytes() < nearest->missing_bytes();
    if (is_nearer) nearest = std::move(shortfall);
  }
  if (!best) {
    nearest->fix = smallest_fix(demands, machine, limits, *nearest);
    return std::unexpected(*std::move(nearest));
  }
  best->notes = notes_of(demands, machine, limits, *best, nearest);
  return *std::move(best);
}

}  // namespace penstock
