#include "cli/plan/picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/units.h"

namespace penstock {

std::string_view to_string(BarKind kind) {
  constexpr std::array<std::string_view, kBarKinds> kNames = {
      "dense weights", "experts", "KV cache", "row tables", "workspace and the like", "reserve"};
  return kNames[static_cast<size_t>(kind)];
}

BarKind bar_kind(PlanItem item) {
  switch (item) {
    case PlanItem::kDense:
    case PlanItem::kEmbedding:
      return BarKind::kDense;
    case PlanItem::kBanks:
    case PlanItem::kSlots:
      return BarKind::kExperts;
    case PlanItem::kKv:
    case PlanItem::kSequences:
      return BarKind::kKv;
    case PlanItem::kRows:
      return BarKind::kRows;
    case PlanItem::kWorkspace:
    case PlanItem::kRing:
    case PlanItem::kStaging:
      return BarKind::kOther;
    case PlanItem::kReserve:
      return BarKind::kReserve;
  }
  return BarKind::kOther;
}

std::vector<PlanBar> plan_bars(const Plan& plan, const ModelDemands& demands,
                               const Machine& machine) {
  std::array<PlanBar, kPlaces> bars;
  for (const Place place : {Place::kVram, Place::kRam, Place::kDisk}) {
    bars[static_cast<size_t>(place)].place = place;
  }
  for (const PlanPart& part : plan.parts) {
    PlanBar& bar = bars[static_cast<size_t>(part.place)];
    const BarKind kind = bar_kind(part.item);
    bar.bytes[static_cast<size_t>(kind)] += part.bytes;
    if (kind != BarKind::kReserve) bar.used_bytes += part.bytes;
  }
  std::vector<PlanBar> shown;
  if (plan.gpu) {
    shown.push_back(bars[static_cast<size_t>(Place::kVram)]);
    shown.back().total_bytes = machine.gpus[static_cast<size_t>(*plan.gpu)].vram_free_bytes;
  }
  shown.push_back(bars[static_cast<size_t>(Place::kRam)]);
  shown.back().total_bytes = machine.ram.available_bytes;
  shown.push_back(bars[static_cast<size_t>(Place::kDisk)]);
  shown.back().total_bytes = demands.bytes();
  return shown;
}

std::array<int, kBarKinds> bar_cells(const PlanBar& bar, int cells) {
  std::array<int, kBarKinds> of_kind = {};
  if (bar.total_bytes == 0) return of_kind;
  uint64_t end_bytes = 0;
  int filled = 0;
  for (size_t i = 0; i < of_kind.size(); ++i) {
    if (bar.bytes[i] == 0) continue;
    end_bytes += bar.bytes[i];
    const double share = static_cast<double>(end_bytes) / static_cast<double>(bar.total_bytes);
    const int end = static_cast<int>(std::lround(std::min(share, 1.0) * cells));
    of_kind[i] = std::clamp(std::max(end, filled + 1), filled, cells) - filled;
    filled += of_kind[i];
  }
  return of_kind;
}

std::string describe(const ModelDemands& demands) {
  std::vector<std::string> experts;
  for (const BankDemand& bank : demands.layers) {
    if (bank.n_experts == 0) continue;
    std::string text =
        fmt::format("{} experts in each of which {} work", bank.n_experts, bank.top_k);
    if (std::ranges::find(experts, text) == experts.end()) experts.push_back(std::move(text));
  }
  std::string shape = experts.empty()       ? "dense"
                      : experts.size() == 1 ? experts.front()
                                            : "experts of several shapes";
  return fmt::format("{} layers, {}; {} of weights", demands.n_layers(), shape,
                     format_bytes(demands.bytes()));
}

std::string describe(const Machine& machine) {
  std::vector<std::string> parts;
  if (machine.cpu.n_cores > 0) {
    parts.push_back(
        fmt::format("{} {}", machine.cpu.n_cores, machine.cpu.n_cores == 1 ? "core" : "cores"));
  }
  parts.push_back(fmt::format("{} of RAM", format_bytes(machine.ram.available_bytes)));
  for (const MachineGpu& gpu : machine.gpus) {
    parts.push_back(fmt::format("{} with {} of VRAM", gpu.name.empty() ? "a GPU" : gpu.name,
                                format_bytes(gpu.vram_free_bytes)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string rate_number(const PredictedRate& rate) {
  if (!rate.tok_s) return "unknown";
  constexpr double kWhole = 100;  // from here on a fraction says nothing
  return *rate.tok_s < kWhole ? fmt::format("{:.1f} tok/s", *rate.tok_s)
                              : format_count(static_cast<uint64_t>(*rate.tok_s)) + " tok/s";
}

std::string rate_text(const PredictedRate& rate) {
  if (rate.tok_s) {
    return fmt::format("{}, bound by the {}", rate_number(rate), to_string(rate.bound));
  }
  std::vector<std::string_view> fields;
  for (const Rate missing : rate.unknown) fields.push_back(field_of(missing));
  return fmt::format("not predicted, for these are not known: {}", fmt::join(fields, ", "));
}

std::vector<PartRow> part_rows(const Plan& plan) {
  std::vector<PartRow> rows;
  for (int i = 0; i < kPlanItems; ++i) {
    PartRow row = {.item = std::string(to_string(static_cast<PlanItem>(i)))};
    uint64_t all = 0;
    for (const PlanPart& part : plan.parts) {
      if (part.item != static_cast<PlanItem>(i)) continue;
      row.bytes[static_cast<size_t>(part.place)] += part.bytes;
      all += part.bytes;
    }
    if (all > 0) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> slot_lines(const Plan& plan) {
  constexpr double kPercent = 100;
  std::vector<std::string> lines;
  for (const auto& [slots, place, hits] :
       {std::tuple(plan.vram_slots, Place::kVram, plan.prediction.vram_hit_rate),
        std::tuple(plan.ram_slots, Place::kRam, plan.prediction.ram_hit_rate)}) {
    if (slots == 0) continue;
    lines.push_back(
        fmt::format("{} expert slots of {} in {}, predicted to be hit {:.0f} % of the time",
                    format_count(static_cast<uint64_t>(slots)), format_bytes(plan.slot_bytes),
                    to_string(place), kPercent * hits));
  }
  return lines;
}

}  // namespace penstock
