// A plan as bars and cells, before anybody decides how to draw them: what the terminal and the page
// have in common.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/plan/plan.h"

namespace penstock {

// Items of a plan that are drawn alike.
enum class BarKind : uint8_t { kDense, kExperts, kKv, kRows, kOther, kReserve };
inline constexpr int kBarKinds = static_cast<int>(BarKind::kReserve) + 1;
std::string_view to_string(BarKind kind);
BarKind bar_kind(PlanItem item);

// One memory: what of it is taken by what, and how much there is.
struct PlanBar {
  Place place = Place::kRam;
  std::array<uint64_t, kBarKinds> bytes = {};
  uint64_t used_bytes = 0;  // without the reserve
  uint64_t total_bytes = 0;
};

// VRAM where a GPU is used, RAM, and of the disk what is read while the model runs, out of all its
// weights.
std::vector<PlanBar> plan_bars(const Plan& plan, const ModelDemands& demands,
                               const Machine& machine);

// How many of `cells` each kind gets. A kind that has bytes has a cell, where there are enough.
std::array<int, kBarKinds> bar_cells(const PlanBar& bar, int cells);

// "48 layers, 512 experts in each of which 10 work; 120.2 GiB of weights"
std::string describe(const ModelDemands& demands);
// "16 cores; 180.0 GiB of RAM; RTX 5090 with 31.0 GiB of VRAM"
std::string describe(const Machine& machine);

// "14.2 tok/s, bound by the memory read rate", or what would have to be known.
std::string rate_text(const PredictedRate& rate);
std::string rate_number(const PredictedRate& rate);  // "14.2 tok/s", "unknown"

// The parts as a table's cells: one row for each item, with bytes or "" in VRAM, RAM and on disk.
struct PartRow {
  std::string item = {};
  std::array<uint64_t, kPlaces> bytes = {};
};
std::vector<PartRow> part_rows(const Plan& plan);

// "512 slots in VRAM (3 % of the experts they may hold)"; empty where there are none.
std::vector<std::string> slot_lines(const Plan& plan);

}  // namespace penstock
